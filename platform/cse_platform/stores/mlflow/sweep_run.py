"""Finds the run of a sweep in MLflow, and deletes the runs of its journal."""

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from cse_platform.errors import NoStoreError, NotFoundError
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow import store, tags


def _search_newest(client: Any, experiments: list[str], condition: str) -> Any:
    """Search for the newest active run; an empty page if there is none."""
    newest_first = ["attributes.start_time DESC"]
    return client.search_runs(experiments, condition, max_results=1, order_by=newest_first)


def find_sweep_run(uri: str, *, experiment: str, sweep: str, journal: str) -> str:
    """Return the link, below the store's address, to the newest active run of a journal's sweep.

    Raises NotFoundError if it has none, and StoreError if the store does not answer.
    """
    client = store.connect(uri)
    with store.store_errors(uri):
        known = client.get_experiment_by_name(experiment)
        of_sweep = f"tags.`{tags.IDENTITY}` = '{tags.run_identity(sweep)}'"
        runs = known and _search_newest(client, [known.experiment_id], of_sweep)
    for run in runs or ():
        if run.data.tags.get(tags.JOURNAL, journal) == journal:
            return tags.run_link(run.info.experiment_id, run.info.run_id)
    raise NotFoundError(f"MLflow at {mask_url(uri)} has no run of the sweep {sweep!r}")


def find_comparison(uri: str, *, experiments: Collection[str], trials: Collection[str]) -> str:
    """Return the link, below the store's address, that compares the newest active runs of trials.

    Trials are keys, and experiments names. Trials without a run are left out. Raises NotFoundError
    if none has one, and StoreError if the store does not answer.
    """
    client = store.connect(uri)
    with store.store_errors(uri):
        known = filter(None, map(client.get_experiment_by_name, experiments))
        ids = [experiment.experiment_id for experiment in known]
        infos = [
            run.info
            for key in (trials if ids else ())
            for run in _search_newest(client, ids, f"tags.{tags.TRIAL} = '{key}'")
        ]
    if not infos:
        raise NotFoundError(f"MLflow at {mask_url(uri)} has none of these trials")
    experiment_ids = dict.fromkeys(run.experiment_id for run in infos)
    return tags.comparison_link(experiment_ids, [run.run_id for run in infos])


@dataclass(frozen=True)
class MirroredSweep:
    """The runs of one sweep. All methods raise StoreError if the store does not answer."""

    uri: str
    client: Any
    experiment: str
    """The id of the experiment."""
    runs: tuple[str, ...]
    """Ids of the runs to delete: those of trials first, that of the sweep last."""
    artifacts: Mapping[str, int]
    """The number of runs to delete by the place where the store says that their artifacts lie.
    Nothing is deleted there, because a store can name any place. A server keeps its own.
    """
    registered: tuple[str, ...]
    """Versions of registered models whose files belong to a run; these runs are kept."""

    def delete(self, journals: Collection[str]) -> None:
        """Delete the runs with their metrics, and the positions of the journals, but no artifact.

        A tracking server deletes nothing permanently: there, runs are moved to the trash and lose
        the identity tag of the sweep; `mlflow gc`, run on the server, empties the trash.
        """
        with store.store_errors(self.uri):
            is_remote = store.is_server(self.uri)
            for run_id in self.runs:
                run = self.client.get_run(run_id)
                if run.info.lifecycle_stage == "active":
                    if is_remote and tags.IDENTITY in run.data.tags:
                        self.client.delete_tag(run_id, tags.IDENTITY)
                    self.client.delete_run(run_id)
                if not is_remote:
                    # `mlflow gc --run-ids` would also remove deleted experiments, models and
                    # artifacts.
                    self.client._tracking_client.store._hard_delete_run(run_id)
            known = self.client.get_experiment(self.experiment).tags
            for name in {f"{tags.POSITION}.{journal}" for journal in journals} & known.keys():
                self.client.delete_experiment_tag(self.experiment, name)


def find_mirrored_sweep(
    uri: str, *, experiment: str, sweep: str, journal: str
) -> MirroredSweep | None:
    """Find the runs of a journal's sweep, in a database also deleted ones; None if there are none.

    Raises StoreError if the store does not answer, or has another schema version.
    """
    try:
        store.check_existing(uri)
    except NoStoreError:
        return None
    client = store.connect(uri)
    with store.store_errors(uri):
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return None
        from mlflow.entities import ViewType

        view = ViewType.ACTIVE_ONLY if store.is_server(uri) else ViewType.ALL
        query = [known.experiment_id], f"tags.sweep = '{sweep}'", view
        runs = store.iterate_pages(uri, client.search_runs, *query)
        ours = [run for run in runs if "backbone" in run.data.tags]  # only runs of ours
        others = {r.info.run_id for r in ours if r.data.tags.get(tags.JOURNAL, journal) != journal}
        ours = [r for r in ours if others.isdisjoint({r.info.run_id, r.data.tags.get(tags.PARENT)})]
        models = store.iterate_pages(uri, client.search_model_versions) if ours else ()
        versions = {str(model.run_id): f"{model.name} version {model.version}" for model in models}
    ordered = sorted(ours, key=lambda run: tags.PARENT not in run.data.tags)
    kept = [run for run in ordered if str(run.info.run_id) in versions]
    gone = [run for run in ordered if str(run.info.run_id) not in versions]
    return MirroredSweep(
        uri,
        client,
        known.experiment_id,
        runs=tuple(str(run.info.run_id) for run in gone),
        artifacts={} if store.is_server(uri) else _count_artifacts(gone),
        registered=tuple(versions[str(run.info.run_id)] for run in kept),
    )


def _count_artifacts(runs: Collection[Any]) -> Mapping[str, int]:
    """Count runs by the folder or URI that has their artifacts, without those that have none."""
    counts = Counter[str]()
    for run in runs:
        location = str(run.info.artifact_uri)  # as the store has it, which may be of any type
        scheme, is_url, path = location.partition(":")
        is_local = not is_url or scheme == "file"
        if not is_local or os.path.lexists(unquote(path or location)):
            counts[location.partition(f"/{run.info.run_id}")[0]] += 1
    return counts
