"""Annotations of trials, configurations and sweeps: notes, tags and stars."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.trials import find_trial, is_trial_reference
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.stores.sql.stored_sweeps import find_sweep, sweep_or_none
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    begins_with,
    in_batches,
)
from cse_platform.tracking.events import Annotatable


@dataclass(frozen=True)
class Annotation:
    """One note, tag or star."""

    text: str
    """The text of the note or tag; empty for a star."""
    who: str
    time: datetime


@dataclass(frozen=True)
class Annotations:
    """The current note, star and tags of one trial, configuration or sweep."""

    note: Annotation | None = None
    star: Annotation | None = None
    tags: tuple[Annotation, ...] = ()
    """The tags in alphabetical order."""

    @property
    def words(self) -> tuple[str, ...]:
        """The texts of the tags."""
        return tuple(tag.text for tag in self.tags)


@dataclass(frozen=True)
class BoardAnnotations:
    """Current annotations of configurations and trials, by their hashes and keys."""

    configurations: Mapping[str, Annotations] = field(default_factory=dict)
    trials: Mapping[str, Annotations] = field(default_factory=dict)

    def of(self, configuration: str, trials: Iterable[str]) -> list[Annotations]:
        """Return the annotations of a configuration, followed by those of its given trials."""
        lookups = [self.configurations.get(configuration), *map(self.trials.get, trials)]
        return [result for result in lookups if result is not None]


def annotations(
    session: Session, about: Annotatable, names: Collection[str] | None = None
) -> dict[str, Annotations]:
    """Read current annotations by name: those of `names`, or all of this kind if it is None."""
    query = select(AnnotationRecord).where(
        AnnotationRecord.about == about, AnnotationRecord.stands.is_(True)
    )
    if names is None:
        return _group_by_name(session.scalars(query.order_by(AnnotationRecord.word)))
    by_name = dict[str, Annotations]()
    for batch in in_batches([*names]):
        in_batch = query.where(AnnotationRecord.name.in_(batch))
        by_name |= _group_by_name(session.scalars(in_batch.order_by(AnnotationRecord.word)))
    return by_name


def annotations_of(session: Session, about: Annotatable, name: str) -> Annotations:
    """Read the current annotations of one trial, configuration or sweep."""
    return annotations(session, about, [name]).get(name, Annotations())


def board_annotations(session: Session) -> BoardAnnotations:
    """Read all annotations of configurations and trials.

    There are few of them, so a board reads them all at once.
    """
    return BoardAnnotations(annotations(session, "configuration"), annotations(session, "trial"))


def last_written(session: Session, about: Annotatable, name: str) -> datetime | None:
    """Read when the annotations of a trial, configuration or sweep last changed; None if never."""
    query = select(func.max(AnnotationRecord.time))
    return session.scalar(
        query.where(AnnotationRecord.about == about, AnnotationRecord.name == name)
    )


def select_tagged(about: Annotatable, tag: str) -> Select[str]:
    """Select the names of the trials, configurations or sweeps that have a tag."""
    return select(AnnotationRecord.name).where(
        AnnotationRecord.about == about,
        AnnotationRecord.field == "tag",
        AnnotationRecord.word == tag,
        AnnotationRecord.stands.is_(True),
    )


def written_tags(session: Session) -> set[str]:
    """Read every tag that an annotation currently sets."""
    query = select(AnnotationRecord.word).where(
        AnnotationRecord.field == "tag", AnnotationRecord.stands.is_(True)
    )
    return {*session.scalars(query)}


def _group_by_name(records: Iterable[AnnotationRecord]) -> dict[str, Annotations]:
    by_name: dict[str, list[AnnotationRecord]] = defaultdict(list)
    for record in records:
        by_name[record.name].append(record)
    return {name: _collect_annotations(lines) for name, lines in by_name.items()}


def _collect_annotations(records: Iterable[AnnotationRecord]) -> Annotations:
    """Turn the records of one thing into its note, star and tags."""
    by_field: dict[str, list[Annotation]] = defaultdict(list)
    for record in records:
        by_field[record.field].append(
            Annotation(record.word or record.text, record.who, record.time)
        )
    note, star = (next(iter(by_field[name]), None) for name in ("note", "star"))
    return Annotations(note, star, tuple(by_field["tag"]))


@dataclass(frozen=True)
class Subject:
    """The trial, configuration or sweep that an annotation is about."""

    about: Annotatable
    name: str
    """A trial's key, a configuration's hash or a sweep's name."""
    sweep: str
    """The sweep itself, or a sweep that holds the trial or configuration."""
    experiment: str
    """The MLflow experiment of this sweep."""

    def __str__(self) -> str:
        digits = len(self.name) if self.about == "sweep" else HASH_DIGITS
        return f"{self.about} {self.name[:digits]}"


def find_subject(session: Session, reference: str) -> Subject:
    """Resolve a reference: a sweep, METHOD@CONFIGURATION, a trial's key or SWEEP#NUMBER.

    The first 6 or more digits of a key or of a configuration's hash are enough; if they match both
    a trial and a configuration, the trial is returned.

    Raises:
        NotFoundError: if nothing matches.
        AmbiguousError: if several keys or hashes match.
    """
    if (sweep := sweep_or_none(session, reference)) is not None:
        return _make_subject("sweep", sweep.name, sweep)
    method, at, digits = reference.partition("@")
    if at:
        return _find_configuration(session, digits, GroupRecord.method == method, named=reference)
    if not is_trial_reference(reference):
        raise NotFoundError(
            f"{reference!r} is not a sweep of this leaderboard; name one, METHOD@CONFIGURATION, a "
            "trial's key or its first digits, or SWEEP#NUMBER"
        )
    keys = select(TrialRecord.id).where(begins_with(TrialRecord.key, reference)).limit(1)
    if "#" in reference or session.scalar(keys):
        trial = find_trial(session, reference)
        return _make_subject("trial", trial.key, find_sweep(session, trial.sweep))
    return _find_configuration(session, reference, named=reference)


def _find_configuration(
    session: Session, digits: str, *conditions: ColumnElement[bool], named: str
) -> Subject:
    query = select(ConfigurationRecord).join(ConfigurationRecord.group)
    begins = begins_with(ConfigurationRecord.hash, digits)
    matches = session.scalars(query.where(begins, *conditions).limit(2)).all() if digits else []
    if not matches:
        raise NotFoundError(f"{named!r} is neither a configuration nor a trial of this leaderboard")
    if len(matches) > 1:
        raise AmbiguousError(f"several configurations begin as {named!r}; write more digits")
    holds = (
        select(SweepRecord)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == matches[0].id)
        .order_by(SweepRecord.id)
        .limit(1)
    )
    return _make_subject("configuration", matches[0].hash, session.scalars(holds).one())


def _make_subject(about: Annotatable, name: str, sweep: SweepRecord) -> Subject:
    return Subject(about, name, sweep.name, sweep.spec.get("experiment", "cse"))
