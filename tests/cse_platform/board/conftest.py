from scored_boards import *  # noqa: F403
