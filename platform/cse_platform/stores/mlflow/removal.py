"""Finds the MLflow runs of a sweep, and deletes them."""

from collections.abc import Collection, Iterator
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
    store_errors,
)

_PAGE = 1000


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
        place = urlparse(location)
        if place.scheme in ("", "file"):
            folder = resolve_links(str(self.artifacts.parent))
            try_to_delete(f"{folder}/{self.artifacts.name}", unquote(place.path))
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
        found = list(_iterate_runs(client, known.experiment_id, sweep, trash=not is_server(uri)))
        others = {r.info.run_id for r in found if r.data.tags.get(tags.JOURNAL, journal) != journal}
        found = [
            r for r in found if others.isdisjoint({r.info.run_id, r.data.tags.get(tags.PARENT)})
        ]
        versions = dict(_iterate_versions(client)) if found else {}
    ordered = sorted(found, key=lambda run: tags.PARENT not in run.data.tags)
    ids = [str(run.info.run_id) for run in ordered]
    return MirroredSweep(
        uri,
        client,
        known.experiment_id,
        artifacts,
        runs=tuple(run_id for run_id in ids if run_id not in versions),
        registered=tuple(versions[run_id] for run_id in ids if run_id in versions),
    )


def _iterate_runs(client: Any, experiment: str, sweep: str, *, trash: bool) -> Iterator[Any]:
    from mlflow.entities import ViewType

    view, token = ViewType.ALL if trash else ViewType.ACTIVE_ONLY, None
    while True:
        asked = [experiment], f"tags.sweep = '{sweep}'", view
        page = client.search_runs(*asked, max_results=_PAGE, page_token=token)
        yield from (run for run in page if "backbone" in run.data.tags)  # only runs of ours
        if not (token := page.token):
            return


def _iterate_versions(client: Any) -> Iterator[tuple[str, str]]:
    """Yield the run id of each version of a registered model, with the version's display name."""
    token = None
    while True:
        page = client.search_model_versions(max_results=_PAGE, page_token=token)
        yield from ((str(one.run_id), f"{one.name} version {one.version}") for one in page)
        if not (token := page.token):
            return
