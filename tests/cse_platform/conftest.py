"""The fixtures that all tests of the platform share."""

from sweep_events import *  # noqa: F403
