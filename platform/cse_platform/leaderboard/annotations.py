"""Annotations of trials, configurations and sweeps: notes, tags and stars."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from cse_platform.stores.sql.tables import AnnotationRecord, in_batches
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


def annotations(
    session: Session, about: Annotatable, names: Collection[str] | None = None
) -> dict[str, Annotations]:
    """Read current annotations by name: those of `names`, or all of this kind if it is None."""
    stands = AnnotationRecord.about == about, AnnotationRecord.stands.is_(True)
    query = select(AnnotationRecord).where(*stands).order_by(AnnotationRecord.word)
    queries = [query]
    if names is not None:
        queries = [query.where(AnnotationRecord.name.in_(some)) for some in in_batches([*names])]
    fields: dict[str, dict[str, list[Annotation]]] = defaultdict(lambda: defaultdict(list))
    for record in (record for each in queries for record in session.scalars(each)):
        text = record.word or record.text
        fields[record.name][record.field].append(Annotation(text, record.who, record.time))
    return {
        name: Annotations(
            next(iter(of["note"]), None), next(iter(of["star"]), None), tuple(of["tag"])
        )
        for name, of in fields.items()
    }


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
