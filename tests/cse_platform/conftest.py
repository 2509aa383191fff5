from board_contents import *  # noqa: F403
from clean_runs import *  # noqa: F403
from hook_server import *  # noqa: F403
from paper_trials import *  # noqa: F403
from sweep_events import *  # noqa: F403
