"""The runs of a sweep in MLflow: describes the own one of the sweep, and deletes them all."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from cse_platform.errors import NoStoreError
from cse_platform.safe_deletion import resolve_links, try_to_delete
from cse_platform.stores.mlflow import tags
from cse_platform.stores.mlflow.store import (
    check_there,
    connect,
    follow_database,
    is_server,
    iterate_pages,
    store_errors,
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

    def links(self, trials: Iterable[str]) -> dict[str, str]:
        """Build links to the runs of these trials, by key; they are relative to the server."""
        with store_errors(self.uri):
            names = {key: tags.run_identity(self.sweep, key) for key in trials}
            runs = {k: _find_newest_run(self.client, self.experiment, n) for k, n in names.items()}
        return {key: tags.run_link(self.experiment, run) for key, (run, _) in runs.items() if run}

    def describe(self, text: str) -> None:
        """Replace our part of the description, in Markdown; keep what a user has written below."""
        note = self.tags.get(tags.DESCRIPTION, "")
        _, line, below = note.partition(tags.USER_LINE)
        yours = below if line else note and f"\n\n{note}"
        rest = f"\n\n{tags.USER_LINE}{yours}"
        ours = tags.text(text.strip(), limit=max(1, tags.TAG_LENGTH - len(rest)))
        with store_errors(self.uri):
            self.client.set_tag(self.id, tags.DESCRIPTION, ours + rest)

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
        run, known_tags = _find_newest_run(client, known.experiment_id, tags.run_identity(sweep))
    if run is None or known_tags.get(tags.JOURNAL, journal) != journal:
        return None
    return SweepRun(uri, client, known.experiment_id, sweep, run, known_tags)


def _find_newest_run(client: Any, experiment: str, name: str) -> tuple[str | None, dict[str, str]]:
    """Find the id and the tags of the newest active run with this identity."""
    runs = client.search_runs(
        [experiment],
        f"tags.`{tags.IDENTITY}` = '{name}'",
        max_results=1,
        order_by=["attributes.start_time DESC"],
    )
    return (runs[0].info.run_id, dict(runs[0].data.tags)) if runs else (None, {})


@dataclass(frozen=True)
class MirroredSweep:
    """The runs of one sweep. All methods raise StoreError if the store does not answer."""

    uri: str
    client: Any
    experiment: str
    """The id of the experiment."""
    artifacts: Path
    """The only folder on this machine to delete artifacts from."""
    runs: tuple[str, ...]
    """Ids of the runs to delete: those of trials first, that of the sweep last."""
    registered: tuple[str, ...]
    """Versions of registered models whose files belong to a run; these runs are kept."""

    def delete(self, journals: Collection[str]) -> None:
        """Delete the runs with their metrics and artifacts, and the positions of the journals.

        A tracking server deletes nothing permanently: there, runs are moved to the trash and lose
        the identity tag of the sweep; `mlflow gc`, run on the server, empties the trash.
        """
        follow_database(self.uri)
        with store_errors(self.uri):
            for run_id in self.runs:
                self._delete_run(run_id)
            known = self.client.get_experiment(self.experiment).tags
            for name in {f"{tags.POSITION}.{journal}" for journal in journals} & known.keys():
                self.client.delete_experiment_tag(self.experiment, name)

    def _delete_run(self, run_id: str) -> None:
        run = self.client.get_run(run_id)
        if run.info.lifecycle_stage == "active":
            if is_server(self.uri) and tags.IDENTITY in run.data.tags:
                self.client.delete_tag(run_id, tags.IDENTITY)
            self.client.delete_run(run_id)
        if is_server(self.uri):
            return
        # `mlflow gc --run-ids` would also remove deleted experiments and models.
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        location = run.info.artifact_uri
        url = urlparse(location)
        if url.scheme in ("", "file"):
            folder = resolve_links(str(self.artifacts.parent))
            try_to_delete(f"{folder}/{self.artifacts.name}", unquote(url.path))
        else:
            get_artifact_repository(location).delete_artifacts()
        self.client._tracking_client.store._hard_delete_run(run_id)


def find_mirrored_sweep(
    uri: str, *, experiment: str, sweep: str, journal: str, artifacts: Path
) -> MirroredSweep | None:
    """Find the runs of a journal's sweep, in a database also deleted ones; None if there are none.

    `artifacts` is the folder of artifacts in the sweep's runs folder.

    Raises StoreError if the store does not answer, or has another schema version.
    """
    try:
        check_there(uri)
    except NoStoreError:
        return None
    client = connect(uri)
    with store_errors(uri):
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return None
        from mlflow.entities import ViewType

        view = ViewType.ACTIVE_ONLY if is_server(uri) else ViewType.ALL
        query = [known.experiment_id], f"tags.sweep = '{sweep}'", view
        runs = iterate_pages(uri, client.search_runs, *query)
        ours = [run for run in runs if "backbone" in run.data.tags]  # only runs of ours
        others = {r.info.run_id for r in ours if r.data.tags.get(tags.JOURNAL, journal) != journal}
        ours = [r for r in ours if others.isdisjoint({r.info.run_id, r.data.tags.get(tags.PARENT)})]
        models = iterate_pages(uri, client.search_model_versions) if ours else ()
        versions = {str(model.run_id): f"{model.name} version {model.version}" for model in models}
    ordered = sorted(ours, key=lambda run: tags.PARENT not in run.data.tags)
    ids = [str(run.info.run_id) for run in ordered]
    return MirroredSweep(
        uri,
        client,
        known.experiment_id,
        artifacts,
        runs=tuple(run_id for run_id in ids if run_id not in versions),
        registered=tuple(versions[run_id] for run_id in ids if run_id in versions),
    )
