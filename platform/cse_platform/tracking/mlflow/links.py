"""Where runs and views are, from any page of the same MLflow server.

MLflow 3 opens its pages for language models first, where experiments have no table of runs; the
address says that these are about training.
"""

from urllib.parse import quote

VIEW = "cse.configurations"
"""The key of the saved view."""
_TRAINING = "workflowType=machine_learning"


def run_link(experiment: str, run: str) -> str:
    """The page of a run; both are ids."""
    return f"#/experiments/{quote(experiment)}/runs/{quote(run)}?{_TRAINING}"


def view_link(experiment: str) -> str:
    """The saved view of all trials of an experiment, by its id."""
    return f"#/experiments/{quote(experiment)}/runs?{_TRAINING}&viewStateShareKey={VIEW}"
