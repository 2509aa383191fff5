"""Delete a sweep from all stores and folders; after a kill the same command finishes the work.

A file beside the journal first records that the deletion has begun: from then on the sweep cannot
be started, and only the same command continues. The sweep's row in the leaderboard is deleted after
everything that is found through it, then the journal, and last the lease, which names the folder.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cse_methods.errors import BackboneError
from cse_methods.files.places import is_remote
from cse_platform.errors import JournalError, SweepRefusedError
from cse_platform.leaderboard.ingest.removal import (
    HeldTrial,
    SweepContent,
    find_content,
    next_slice,
    remove_cursors,
    remove_sweep,
    remove_trials,
)
from cse_platform.leaderboard.store import Store
from cse_platform.leaderboard.stored_sweeps import find_sweep
from cse_platform.render.formats import format_count
from cse_platform.runner.models import exists, holds_other_model
from cse_platform.runner.own_folders import OwnFolders
from cse_platform.safe_deletion import delete_below, find_below, resolve_links
from cse_platform.search.storage import open_stored_study
from cse_platform.secrets import mask_url
from cse_platform.sweep.stores import (
    JOURNAL_FILE,
    find_linked_folders,
    import_journal,
    mlflow_uri,
    normalize_url,
    search_url,
    storage_place,
    sweep_folder,
)
from cse_platform.tracking.events import MODEL_DIGITS, now
from cse_platform.tracking.journal import (
    DELETION,
    read_journal_id,
)
from cse_platform.tracking.mlflow.removal import MirroredSweep, find_mirrored_sweep
from cse_platform.tracking.provenance import user_and_host
from cse_platform.upkeep.held_sweep import (
    LocatedSweep,
    folder_size,
    format_size,
    hold_sweep,
    locate_sweep,
    remove_all_messages,
    write_slice,
)


@dataclass(frozen=True)
class Deletion:
    """A sweep to delete: what is removed, what stays, and the consequences for others."""

    url: str
    """URL of the leaderboard."""
    place: LocatedSweep
    content: SweepContent
    studied: int | None
    """Number of trials of its study in the search store; None if it has no study there."""
    mirrored: MirroredSweep | None
    models: tuple[str, ...] = ()
    """The locations of the kept models to remove."""

    @property
    def sweep(self) -> str:
        return self.place.sweep

    @cached_property
    def search(self) -> str:
        """The URL of the search store."""
        return search_url(self.place.runs)

    @cached_property
    def folders(self) -> OwnFolders:
        """Its checkpoints and models."""
        storage = storage_place(self.content.spec.get("storage"), self.place.runs)
        return OwnFolders(storage, self.sweep, self.place.runs)

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """What is removed, as rows: what it is, how much, and where."""
        rows = {what: count for what, count in self.content.rows.items() if count}
        board = mask_url(self.url)
        parts = [(what, str(count), board) for what, count in rows.items()]
        if self.content.cosines:
            much = f"{rows['similarities']}, {format_size(self.content.cosines)}"
            parts[list(rows).index("similarities")] = ("similarities", much, board)
        if self.studied is not None:
            parts.append(("search study", f"{self.studied} trials", mask_url(self.search)))
        if self.mirrored is not None and self.mirrored.runs:
            runs = f"{len(self.mirrored.runs)}, with their artifacts"
            parts.append(("MLflow runs", runs, mask_url(self.mirrored.uri)))
        if self.models:
            size = sum(0 if is_remote(model) else folder_size(Path(model)) for model in self.models)
            where = mask_url(self.folders.models)
            parts.append(("models", f"{len(self.models)}, {format_size(size)}", where))
        if self.place.folder is not None:
            size = folder_size(self.place.folder)
            parts.append(("journal and all beside it", format_size(size), str(self.place.folder)))
        return parts

    @property
    def effects(self) -> list[str]:
        """What others use of the sweep, and what stays, one sentence each."""
        return list(self._describe_effects())

    def find_models(self, board: Store) -> Iterator[str]:
        """Find the locations of the kept models to remove."""
        for batch in _iterate_trials(board, self.sweep):
            for trial in batch:
                if (location := self._find_model(trial)) is not None:
                    yield location

    def carry_out(self, board: Store) -> None:
        """Delete everything.

        Raises:
            SweepRefusedError: if a driver holds the sweep.
            StoreError, JournalError: if a store or a folder cannot be changed; a repeat continues.
        """
        try:
            self._remove_everything(board)
        except OSError as error:
            raise JournalError(
                f"cannot remove {error.filename}: {error.strerror}; cse-sweep delete {self.sweep}, "
                "given again, goes on"
            ) from error

    def _remove_everything(self, board: Store) -> None:
        journals = self.content.journals
        with hold_sweep(board, self.place) as lease:
            self._record_beginning()
            imported = import_journal(self.place.runs, self.sweep)
            for file in (imported, imported.with_name(f"{imported.name}.lock")):
                delete_below(resolve_links(str(imported.parent)), str(file))
            with write_slice(board, lease) as session:
                remove_cursors(session, journals)
            while trials := _read_slice(board, self.sweep):
                evaluated = [self._delete_files(trial) for trial in trials]
                with write_slice(board, lease) as session:
                    remove_trials(session, self.sweep, trials, journals)
                    remove_cursors(session, [journal for some in evaluated for journal in some])
            for journal in sorted(journals):
                remove_all_messages(board, lease, journal)
            with open_stored_study(self.search, self.sweep, journals) as study:
                study.delete()
            if self.mirrored is not None:
                self.mirrored.delete(journals)
            with write_slice(board, lease) as session:
                remove_sweep(session, self.sweep, journals)
            if self.place.folder is not None:
                self.folders.delete_checkpoints()
                self.folders.delete_owner()
                _remove_folder(self.place.folder)
            with board.writing() as session:
                lease.renew(session)
                lease.forget(session)

    def _describe_effects(self) -> Iterator[str]:
        content = self.content
        for other, count in content.shared.items():
            stay = "stays" if count == 1 else "stay"
            yield (
                f"{format_count(count, 'trial')} {stay} on the leaderboard, whole, because sweep "
                f"{other!r} holds them too, without the GPU time that they took here; a new "
                f"leaderboard gets from the journal of {other!r} only what ran there"
            )
        for other in content.builds_on:
            yield f"sweep {other!r} learned from it or took a value that it found"
        for method, backbone in content.leads:
            yield (
                f"it has the best {method} on {backbone}, which {{best: …}} stands for, and "
                "which figures, paper tables and audits show; the next best takes its place"
            )
        if content.needed_models:
            kept = format_count(len(content.needed_models), "model")
            yield f"{kept} of it stay on the disk, because other trials were trained with them"
        storage = storage_place(content.spec.get("storage"), self.place.runs)
        for linked in find_linked_folders(storage, self.sweep, runs=self.place.runs):
            yield f"what lies in {linked} stays, because a link leads there; remove it by hand"
        for version in () if self.mirrored is None else self.mirrored.registered:
            yield f"registered model {version} is of it, and stays with its MLflow run"
        if content.tested:
            yield (
                f"test sets were opened for {format_count(content.tested, 'trial')} of it; what "
                "was tried after that on the same backbone loses its mark"
            )
        if self.place.elsewhere:
            yield f"its journal lies in {self.place.elsewhere}, and stays; remove it there"
        if self.studied is None and not content.spec.get("source"):
            yield (
                f"no study of it is in {mask_url(self.search)}; CSE_SEARCH_STORE names another "
                "search store"
            )
        mirrored = self.mirrored is not None and (self.mirrored.runs or self.mirrored.registered)
        if not mirrored and not content.spec.get("source"):
            yield (
                f"no run of it is in {mask_url(mlflow_uri(self.place.runs))}; CSE_MLFLOW_URI names "
                "another MLflow store"
            )

    def _record_beginning(self) -> None:
        """Record beside the journal that the deletion has begun, with what is needed to finish."""
        if self.place.folder is None or (self.place.folder / DELETION).exists():
            return
        spec = {name: self.content.spec.get(name) for name in ("experiment", "storage", "source")}
        record = {
            "sweep": self.sweep,
            "leaderboard": normalize_url(self.url),
            "journals": sorted(self.content.journals),
            "spec": {name: value for name, value in spec.items() if value is not None},
            "who": user_and_host(),
            "time": now().isoformat(),
        }
        part = self.place.folder / f"{DELETION}.part"
        part.write_text(json.dumps(record), encoding="utf-8")
        part.replace(self.place.folder / DELETION)

    def _delete_files(self, trial: HeldTrial) -> list[str]:
        """Delete the model of a trial that is removed, and the journal of its evaluations.

        Returns the id of that journal in a list, which is empty if there is none.
        """
        if self._find_model(trial) is not None:
            self.folders.delete_model(trial.key)
        journal = self.place.runs / "evaluations" / f"{trial.key[:MODEL_DIGITS]}.jsonl"
        if not trial.will_be_deleted or not journal.exists():
            return []
        identity = read_journal_id(journal)
        evaluations = f"{resolve_links(str(self.place.runs))}/evaluations"
        for file in (journal, journal.with_name(f"{journal.name}.lock")):
            delete_below(evaluations, str(file))
        return [identity]

    def _find_model(self, trial: HeldTrial) -> str | None:
        """Find the kept model of a trial that is removed; None if there is none or others need it.

        A model in another location belongs to a runs folder whose leaderboard was merged.
        """
        location = self.folders.model_location(trial.key)
        if not trial.will_be_deleted or trial.key in self.content.needed_models:
            return None
        if not self.folders.holds_model(location, trial.key):
            return None  # its key is no name of a folder, or the folder lies elsewhere by a link
        if self.place.folder is None and trial.model != location:
            return None
        try:
            there = exists(location) and not holds_other_model(location, trial.key)
        except (BackboneError, OSError) as error:
            raise SweepRefusedError(
                f"the model in {mask_url(location)} cannot be reached: {error}; try again when its "
                "place can be"
            ) from error
        return location if there else None


def plan_deletion(board: Store, url: str, sweep: str, *, runs: Path) -> Deletion:
    """Find out what deleting a sweep would remove, without changing anything.

    Args:
        board: the leaderboard that has the sweep.
        url: the URL of that leaderboard.
        sweep: the sweep's name.
        runs: the runs folder; also the folder of the sweep's last driver is searched.

    Raises:
        NotFoundError: if there is no sweep of that name, and no deletion of it has begun.
        SweepRefusedError: if the folder belongs to a sweep on another leaderboard, or its part of
            the storage to another runs folder.
        StoreError: if a store does not answer.
    """
    with board.session() as session:
        content = find_content(session, sweep)
        place = locate_sweep(session, sweep, runs, () if content is None else content.journals)
        begun = _read_beginning(place, url)
        if place.folder is not None:
            _refuse_linked_folder(place.folder, sweep)
        _refuse_linked_evaluations(place.runs / "evaluations")
        if content is None and begun is None:
            _refuse_folder_of_another(sweep_folder(runs.absolute(), sweep), sweep, url)
            find_sweep(session, sweep)  # raises, and suggests the nearest name
    if begun is not None:
        empty = SweepContent({}, frozenset(), {}, 0, {}, frozenset(), (), (), 0)
        content = content or empty
        journals = content.journals | set(begun["journals"])
        spec = {**begun["spec"], **content.spec}
        content = replace(content, journals=journals, spec=spec)
    assert content is not None  # for mypy: otherwise `find_sweep` has raised
    with open_stored_study(search_url(place.runs), sweep, content.journals) as study:
        studied = study.trials
    mirrored = find_mirrored_sweep(
        mlflow_uri(place.runs),
        experiment=content.spec.get("experiment", "cse"),
        sweep=sweep,
        artifacts=place.runs / "artifacts",
    )
    deletion = Deletion(url, place, content, studied, mirrored)
    if place.journal is not None:
        journal = read_journal_id(place.journal) if place.journal.exists() else ""
        deletion.folders.refuse_other_owner(journal)
    return replace(deletion, models=tuple(deletion.find_models(board)))


def _read_beginning(place: LocatedSweep, url: str) -> Mapping[str, Any] | None:
    """Read the record of a deletion that has begun; None if there is none."""
    file = None if place.folder is None else place.folder / DELETION
    if file is None or not file.exists():
        return None
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if record["leaderboard"] != normalize_url(url):
        raise SweepRefusedError(
            f"the deletion of sweep {place.sweep!r} has begun on {record['leaderboard']} ({file}); "
            "name that leaderboard by --runs or --store"
        )
    return record


def _refuse_folder_of_another(folder: Path, sweep: str, url: str) -> None:
    if (folder / JOURNAL_FILE).exists():
        raise SweepRefusedError(
            f"sweep {sweep!r} is not on {mask_url(url)}, and {folder} is there: name the "
            "leaderboard that has it by --store or CSE_STORE"
        )


def _read_slice(board: Store, sweep: str) -> list[HeldTrial]:
    with board.session() as session:
        return next_slice(session, sweep)


def _iterate_trials(board: Store, sweep: str) -> Iterator[Sequence[HeldTrial]]:
    """Yield all trials of a sweep in batches."""
    after = 0
    with board.session() as session:
        while batch := next_slice(session, sweep, after=after):
            yield batch
            after = batch[-1].id


def _remove_folder(folder: Path) -> None:
    """Remove a sweep's folder: the journal near the end, and the record of the deletion last."""
    journal = folder / JOURNAL_FILE
    lock = journal.with_name(f"{journal.name}.lock")
    last = [journal, lock, folder / DELETION]
    others = sorted({*folder.iterdir()} - {*last})
    for entry in [*others, *last]:
        delete_below(_real_sweeps(folder), str(entry))
    folder.rmdir()


def _refuse_linked_folder(folder: Path, sweep: str) -> None:
    sweeps = _real_sweeps(folder)
    if find_below(sweeps, str(folder / JOURNAL_FILE)) != f"{sweeps}/{sweep}/{JOURNAL_FILE}":
        raise SweepRefusedError(
            f"{folder} is not the folder of sweep {sweep!r}, or lies elsewhere by a link: nothing "
            "is deleted there; remove the link, and the folder by hand"
        )


def _refuse_linked_evaluations(folder: Path) -> None:
    if folder.is_symlink():
        raise SweepRefusedError(
            f"{folder} is a link: what it leads to may belong to somebody else, and nothing is "
            "deleted there; put the folder itself there, or remove the link"
        )


def _real_sweeps(folder: Path) -> str:
    """Return the folder of all sweeps, which a sweep's folder must lie in without a link."""
    return f"{resolve_links(str(folder.parent.parent))}/{folder.parent.name}"
