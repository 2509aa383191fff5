"""Delete a sweep from all stores and folders; after a kill the same command finishes the work.

The sweep's journal first says that it is deleted: from then on no driver starts the sweep, and no
store is filled from that journal. The rows on the leaderboard go after everything that is found
through them, and last the folder with the journal.
"""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from cse_methods.errors import BackboneError
from cse_methods.files.places import is_remote
from cse_platform.control.annotations import remove_annotations
from cse_platform.errors import JournalError, SweepRefusedError
from cse_platform.kept_models import exists, holds_other_model
from cse_platform.leaderboard.trials import find_sweep_and_number
from cse_platform.numbers import format_count, format_size, utc
from cse_platform.own_folders import OwnFolders
from cse_platform.safe_paths import delete_below, find_below, resolve_links
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.sweep_run import MirroredSweep, find_mirrored_sweep
from cse_platform.stores.optuna.sink import open_stored_study
from cse_platform.stores.sql.lease import Lease, refuse_while_driven
from cse_platform.stores.sql.removal import remove_cursors, remove_sweep
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import SweepLeaseRecord, sweep_or_none
from cse_platform.sweep.stores import (
    JOURNAL_FILE,
    evaluations_journal,
    find_linked_folders,
    import_journal,
    mlflow_uri,
    search_url,
    storage_location,
    sweep_folder,
)
from cse_platform.tracking.events import (
    SweepDeleted,
    SweepStarted,
    TestAccessed,
    TrialEvaluated,
    TrialStarted,
)
from cse_platform.tracking.journal import (
    Journal,
    is_deleted,
    read_journal,
    read_journal_id,
    share_journal,
)
from cse_platform.tracking.provenance import user_and_host
from cse_platform.upkeep.sweep_content import SweepContent, find_content, find_left_over


@dataclass(frozen=True)
class Deletion:
    """A sweep to delete: what is removed, what stays, and the consequences for others."""

    sweep: str
    url: str
    """URL of the leaderboard."""
    journal: Path
    """The journal of the sweep, or of the trials that were imported into it."""
    runs: Path
    """The runs folder with the journal."""
    storage: str
    """The folder or URI of its checkpoints and models."""
    is_stored: bool
    """Whether the leaderboard has the sweep; it may have none, or another one of its name."""
    content: SweepContent
    studied: int | None
    """Number of trials of its study in the search store; None if it has no study there."""
    mirrored: MirroredSweep | None
    folders: OwnFolders
    """Its checkpoints and models."""
    is_claimed: bool
    """Whether its checkpoints and models are deleted: whether more than its journal says that the
    storage has them.
    """

    @property
    def is_import(self) -> bool:
        """Whether its trials were imported."""
        return self.journal == import_journal(self.runs, self.sweep)

    @property
    def search(self) -> str:
        """The URL of the search store."""
        return search_url(self.runs)

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """What is removed, as rows: what it is, how much, and where.

        Raises SweepRefusedError if a model cannot be reached.
        """
        board = mask_url(self.url)
        parts = [(kind, much, board) for kind, much in self.content.rows.items()]
        if self.studied is not None:
            parts.append(("search study", f"{self.studied} trials", mask_url(self.search)))
        if self.mirrored is not None and self.mirrored.runs:
            uri = mask_url(self.mirrored.uri)
            parts.append(("MLflow runs", str(len(self.mirrored.runs)), uri))
        if models := [*filter(None, map(self.find_model, self.content.trials))]:
            size = sum(0 if is_remote(model) else folder_size(Path(model)) for model in models)
            location = mask_url(self.folders.models)
            parts.append(("models", f"{len(models)}, {format_size(size)}", location))
        if self.is_import:
            size = self.journal.stat().st_size
            parts.append(("journal", format_size(size), str(self.journal)))
        else:
            folder, size = self.journal.parent, folder_size(self.journal.parent)
            parts.append(("journal and all beside it", format_size(size), str(folder)))
        return parts

    def effects(self) -> Iterator[str]:
        """Yield what others use of the sweep, and what stays, one sentence each."""
        for other, trials in self.content.shared.items():
            stay = "stays" if len(trials) == 1 else "stay"
            yield (
                f"{format_count(len(trials), 'trial')} {stay} on the leaderboard, in sweep "
                f"{other!r}, but without the GPU time taken here, and without the choices made "
                "here: values that chose a configuration here count in its rows; a rebuilt "
                "leaderboard has scores and the search's dev curve, but no other metrics of a "
                "curve, no costs and no machine from here"
            )
        if self.content.needed_models:
            kept = format_count(len(self.content.needed_models), "model")
            yield f"{kept} of it will stay on disk, because other trials were trained with it"
        if not self.is_claimed:
            yield (
                f"checkpoints and models in {mask_url(self.storage)} stay, because that storage "
                "does not record that they are of this sweep; remove them by hand"
            )
        for linked in find_linked_folders(self.storage, self.sweep, runs=self.runs):
            yield (f"the content of {linked} stays, because it is behind a link; remove it by hand")
        for version in () if self.mirrored is None else self.mirrored.registered:
            yield f"registered model {version} is of it, and stays with its MLflow run"
        for location, runs in () if self.mirrored is None else self.mirrored.artifacts.items():
            yield (
                f"MLflow names {mask_url(location)} for artifacts of {format_count(runs, 'run')}; "
                "they stay, because anyone who writes to MLflow can name any place"
            )
        if later := self.content.opened_later:
            times = [time for time in later if time is not None]
            until = f" from before {utc(max(times))}" if len(times) == len(later) else ""
            yield (
                f"test sets were opened for {format_count(self.content.tested, 'trial')} of it; "
                f"later rows of its method and backbone{until} lose their mark *"
            )
        if self.studied is None and not self.is_import:
            yield (
                f"{mask_url(self.search)} has no study of it; CSE_SEARCH_STORE names another "
                "search store"
            )
        mirrored = self.mirrored is not None and (self.mirrored.runs or self.mirrored.registered)
        if not mirrored and not self.is_import:
            yield (
                f"no run of it is in {mask_url(mlflow_uri(self.runs))}; CSE_MLFLOW_URI names "
                "another MLflow store"
            )

    def carry_out(self, board: Store) -> None:
        """Delete everything.

        Raises:
            SweepRefusedError: if a driver holds the sweep.
            StoreError, JournalError: if a store or a folder cannot be changed; a repeat continues.
        """
        try:
            with Lease(board, self.sweep, None) if self.is_stored else nullcontext() as lease:
                self._remove_everything(board, lease)
        except OSError as error:
            raise JournalError(
                f"cannot delete {error.filename or self.journal}: {error.strerror}; cse-sweep "
                f"delete {self.sweep}, run again, continues"
            ) from error

    def _remove_everything(self, board: Store, lease: Lease | None) -> None:
        if not is_deleted(self.journal):
            with share_journal(self.journal, seconds=0) as append:
                append(SweepDeleted(sweep=self.sweep, who=user_and_host()))
        journal = read_journal_id(self.journal)
        remove_annotations(board, self.runs, self.sweep, self.content.annotated)
        journals = (evaluations_journal(self.runs, trial) for trial in self.content.trials)
        evaluations = [file for file in journals if file.exists()]
        with board.writing() as session:
            remove_cursors(session, [journal, *map(read_journal_id, evaluations)])
        for file in evaluations:
            _delete_file(file)
        for trial in self.content.trials:
            if self.find_model(trial) is not None:
                self.folders.delete_model(trial)
        self._keep_evaluations()
        with open_stored_study(self.search, self.sweep, {journal}) as study:
            if study is not None:
                storage, number = study
                storage.delete_study(number)
        if self.mirrored is not None:
            self.mirrored.delete({journal})
        with board.writing() as session:
            if lease is not None:
                lease.renew(session)
            remove_sweep(session, self.sweep, journal)
            if lease is not None:
                lease.forget(session)
        if self.is_import:
            _delete_file(self.journal)
        else:
            if self.is_claimed:
                self.folders.delete_checkpoints(with_owner=True)
            folder = self.journal.parent
            last = [folder / f"{JOURNAL_FILE}.lock", folder / JOURNAL_FILE]
            for entry in [*sorted({*folder.iterdir()} - {*last}), *last]:  # the journal at the end
                delete_below(_resolve_runs(folder.parent), str(entry))
            folder.rmdir()

    def _keep_evaluations(self) -> None:
        """Copy evaluations of trials that other sweeps hold from the sweep's journal to theirs."""
        holders = {key: sweep for sweep, keys in self.content.shared.items() for key in keys}
        kept: dict[str, list[TestAccessed | TrialEvaluated]] = {}
        with suppress(JournalError):  # what follows a damaged line is lost
            for _, event in read_journal(self.journal):
                if isinstance(event, TestAccessed | TrialEvaluated) and event.trial in holders:
                    moved = event.model_copy(update={"sweep": holders[event.trial]})
                    kept.setdefault(event.trial, []).append(moved)
        for trial, events in kept.items():
            with Journal(evaluations_journal(self.runs, trial)) as journal:
                known = [event for _, event in journal.read()]
                for event in events:
                    if event not in known:
                        journal.append(event)

    def find_model(self, trial: str) -> str | None:
        """Find the kept model of a deleted trial; None if there is none or others need it."""
        location = self.folders.model_location(trial)
        is_own = self.is_claimed and self.folders.holds_model(location, trial)
        if trial in self.content.needed_models or not is_own:
            return None  # or its key is no name of a folder, or the folder lies elsewhere by a link
        try:
            there = exists(location) and not holds_other_model(location, trial)
        except (BackboneError, OSError) as error:
            raise SweepRefusedError(
                f"the model in {mask_url(location)} cannot be reached: {error}; try again when "
                "it can"
            ) from error
        return location if there else None


def plan_deletion(board: Store, url: str, sweep: str, *, runs: Path) -> Deletion:
    """Find out what deleting a sweep would remove, without changing anything.

    Args:
        board: the leaderboard that has the sweep.
        url: the URL of that leaderboard.
        sweep: the sweep's name.
        runs: the runs folder with its journal. Another folder that the leaderboard names is none
            to delete from, because anyone can have written that.

    Raises:
        NotFoundError: if there is no sweep of that name, and no deletion of it has begun.
        SweepRefusedError: if it is a trial, a driver holds it, its journal is not here, the folder
            belongs to a sweep on another leaderboard, or its part of the storage to another runs
            folder.
        StoreError: if a store does not answer.
    """
    with board.session() as session:
        journal = _locate_journal(session, sweep, runs.absolute())
        identity, stored = read_journal_id(journal), sweep_or_none(session, sweep)
        is_stored = stored is not None and stored.journal == identity
        if is_stored:
            refuse_while_driven(session.connection(), sweep)
        spec, started = dict[str, Any](), dict[str, None]()
        with suppress(JournalError):  # up to a damaged line
            for _, event in read_journal(journal):
                if isinstance(event, SweepStarted):
                    spec = event.spec
                elif isinstance(event, TrialStarted):
                    started[event.trial] = None
        if stored is not None and is_stored:
            content = find_content(session, stored)
        else:  # its rows are gone
            content = find_left_over(session, sweep, list(started))
    home = journal.parents[2 if journal.name == JOURNAL_FILE else 1]
    with open_stored_study(search_url(home), sweep, {identity}) as study:
        studied = None if study is None else study[0].get_n_trials(study[1])
    mirrored = None
    if stored is None or is_stored:  # the runs of that name are not another sweep's
        mirrored = find_mirrored_sweep(
            mlflow_uri(home),
            experiment=spec.get("experiment", "cse"),
            sweep=sweep,
            journal=identity,
        )
    storage = storage_location(spec.get("storage"), home)
    folders = OwnFolders(storage, sweep, home)
    folders.refuse_other_owner(identity)
    return Deletion(
        sweep,
        url,
        journal,
        home,
        storage,
        is_stored,
        content,
        studied,
        mirrored,
        folders,
        folders.is_claimed(identity),
    )


def _locate_journal(session: Session, sweep: str, runs: Path) -> Path:
    """Locate the journal of a sweep or import in the runs folder.

    Raises NotFoundError or SweepRefusedError if it is not there, or a trial is named.
    """
    stored, last = sweep_or_none(session, sweep), session.get(SweepLeaseRecord, sweep)
    journals = [sweep_folder(runs, sweep) / JOURNAL_FILE, import_journal(runs, sweep)]
    known = {stored.journal if stored else "", last.journal if last else ""} - {""}
    for journal in journals:
        if journal.exists():
            _refuse_links(journal, runs, sweep)
        with suppress(JournalError, OSError):
            if is_deleted(journal) or (journal.exists() and read_journal_id(journal) in known):
                return journal
    if stored is None and last is None:
        for journal in journals:
            if journal.exists():
                raise SweepRefusedError(
                    f"sweep {sweep!r} is not on this leaderboard, but {journal} exists: name "
                    "its leaderboard with --store or CSE_STORE"
                )
        find_sweep_and_number(session, sweep)  # raises, and suggests the nearest name
        raise SweepRefusedError(
            f"{sweep!r} is a trial, and trials cannot be deleted singly, only a sweep with all of "
            f"them; cse-leaderboard annotate {sweep} --tag TAG marks this one"
        )
    hint = "" if last is None or not last.folder else f": it was in {last.folder} on {last.host}"
    raise SweepRefusedError(
        f"the journal of sweep {sweep!r} is not here{hint}; delete the sweep there, or name "
        "its runs folder with --runs. If the journal is lost, remove the sweep from the "
        f"leaderboard with cse-leaderboard rebuild --without {sweep}"
    )


def folder_size(folder: Path) -> int:
    """Sum the sizes of the files below a folder, in bytes; 0 if there is none."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def _delete_file(journal: Path) -> None:
    """Delete a journal of a runs folder, and its lock."""
    for file in (journal.with_name(f"{journal.name}.lock"), journal):
        delete_below(_resolve_runs(journal.parent), str(file))


def _resolve_runs(folder: Path) -> str:
    """Resolve the links that lead to the runs folder of a folder, but not the folder itself."""
    return f"{resolve_links(str(folder.parent))}/{folder.name}"


def _refuse_links(journal: Path, runs: Path, sweep: str) -> None:
    """Refuse to delete what a link leads to, which may belong to somebody else."""
    sweeps = _resolve_runs(journal.parent.parent)
    if journal.name == JOURNAL_FILE and (
        find_below(sweeps, str(journal)) != f"{sweeps}/{sweep}/{JOURNAL_FILE}"
    ):
        raise SweepRefusedError(
            f"{journal.parent} is not the folder of sweep {sweep!r}, or is behind a link: "
            "nothing is deleted there; remove the link and the folder by hand"
        )
    for folder in (runs / "evaluations", runs / "imports"):
        if folder.is_symlink():
            raise SweepRefusedError(
                f"{folder} is a link to something that may belong to somebody else, so nothing "
                "is deleted; replace it by the folder itself, or remove it"
            )
