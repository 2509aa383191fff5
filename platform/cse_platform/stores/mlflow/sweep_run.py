"""Updates the description and the artifacts of a sweep's run in MLflow, and links to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_platform.stores.mlflow.store import connect, follow_database, store_errors
from cse_platform.stores.mlflow.tags import (
    DESCRIPTION,
    IDENTITY,
    JOURNAL,
    TAG_LENGTH,
    USER_LINE,
    run_identity,
    run_link,
    text,
    view_link,
)


@dataclass(frozen=True)
class SweepRun:
    """The run of one sweep. All methods raise StoreError if the store does not answer."""

    uri: str
    client: Any
    experiment: str
    """The id of the experiment."""
    sweep: str
    id: str
    tags: dict[str, str]

    @property
    def view(self) -> str:
        """Link to the saved view of all trials, with seeds averaged."""
        return view_link(self.experiment)

    @property
    def page(self) -> str:
        """Link to the run's page."""
        return run_link(self.experiment, self.id)

    def links(self, trials: Iterable[str]) -> dict[str, str]:
        """Build links to the runs of these trials, by key; they are relative to the server."""
        with store_errors(self.uri):
            names = {key: run_identity(self.sweep, key) for key in trials}
            runs = {k: _find_newest_run(self.client, self.experiment, n) for k, n in names.items()}
        return {key: run_link(self.experiment, run) for key, (run, _) in runs.items() if run}

    def describe(self, said: str) -> None:
        """Replace our part of the description, in Markdown; keep what a user has written below."""
        note = self.tags.get(DESCRIPTION, "")
        _, line, below = note.partition(USER_LINE)
        yours = below if line else note and f"\n\n{note}"
        rest = f"\n\n{USER_LINE}{yours}"
        ours = text(said.strip(), limit=max(1, TAG_LENGTH - len(rest)))
        with store_errors(self.uri):
            self.client.set_tag(self.id, DESCRIPTION, ours + rest)

    def add(self, folder: Path) -> None:
        """Add the files of a folder to the run's artifacts, replacing files of the same name."""
        follow_database(self.uri)
        with store_errors(self.uri):
            self.client.log_artifacts(self.id, str(folder))


def sweep_run(uri: str, *, experiment: str, sweep: str, journal: str) -> SweepRun | None:
    """Find the run of the sweep of a journal; None if there is none or a user has deleted it."""
    client = connect(uri)
    with store_errors(uri):
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return None
        run, tags = _find_newest_run(client, known.experiment_id, run_identity(sweep))
    if run is None or tags.get(JOURNAL, journal) != journal:
        return None
    return SweepRun(uri, client, known.experiment_id, sweep, run, tags)


def _find_newest_run(client: Any, experiment: str, name: str) -> tuple[str | None, dict[str, str]]:
    """Find the id and the tags of the newest active run with this identity."""
    runs = client.search_runs(
        [experiment],
        f"tags.`{IDENTITY}` = '{name}'",
        max_results=1,
        order_by=["attributes.start_time DESC"],
    )
    return (runs[0].info.run_id, dict(runs[0].data.tags)) if runs else (None, {})
