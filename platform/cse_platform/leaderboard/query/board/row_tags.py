"""The tags that configurations have from the sweeps that hold them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.annotations import annotations
from cse_platform.leaderboard.store.tables import (
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)


def tags_of_sweeps(session: Session, configurations: Sequence[int]) -> Mapping[int, set[str]]:
    """Of the sweeps that hold them: from their files, and what people have written."""
    held = (
        select(TrialRecord.configuration_id, SweepRecord.id, SweepRecord.name)
        .join(TrialRecord.places)
        .join(SweepTrialRecord.sweep)
        .where(TrialRecord.configuration_id.in_(configurations))
        .distinct()
    )
    lines = session.execute(held).all()
    in_files: dict[int, set[str]] = defaultdict(set)
    of_these = SweepTagRecord.sweep_id.in_({line.id for line in lines})
    for sweep, tag in session.execute(
        select(SweepTagRecord.sweep_id, SweepTagRecord.tag).where(of_these)
    ):
        in_files[sweep].add(tag)
    written = annotations(session, "sweep")
    found: dict[int, set[str]] = defaultdict(set)
    for configuration, sweep, name in lines:
        said = written[name].words if name in written else ()
        found[configuration] |= in_files[sweep].union(said)
    return found
