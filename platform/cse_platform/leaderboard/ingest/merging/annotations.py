"""Notes, tags and stars of another leaderboard; of one that both have, the later stands."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.annotations import put_newest
from cse_platform.leaderboard.store.annotation_tables import AnnotationRecord


def merge_annotations(ours: Session, theirs: Session, rename: Mapping[str, str]) -> None:
    """Take over what people have written there; `rename` has names of sweeps here by theirs."""
    for row in theirs.execute(select(*AnnotationRecord.__table__.c)).mappings():
        name = rename.get(row["name"], row["name"]) if row["about"] == "sweep" else row["name"]
        put_newest(ours, AnnotationRecord(**{**row, "name": name}))
