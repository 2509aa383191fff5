"""Which dev sets a trial is judged by, and what each is called."""

from typing import Literal

from cse_methods.settings import Settings

DevTask = Literal["stsb", "sickr", "transfer_dev"]


class DevSelection(Settings):
    """Which dev set picks a trial's checkpoint, which one the search climbs, which are shown."""

    checkpoint: DevTask = "stsb"
    search: DevTask = "stsb"
    also: tuple[DevTask, ...] = ("sickr",)

    @property
    def tasks(self) -> tuple[DevTask, ...]:
        """Every dev set in use, each once."""
        return tuple(dict.fromkeys((self.checkpoint, self.search, *self.also)))


def dev_metric(task: str) -> str:
    """The name of the metric that a dev set is judged by, e.g. `dev/stsb_spearman`.

    For `transfer_dev` it is the mean over the seven transfer tasks.
    """
    if task == "transfer_dev":
        return "dev/avg_transfer_accuracy"
    return f"dev/{task}_spearman"
