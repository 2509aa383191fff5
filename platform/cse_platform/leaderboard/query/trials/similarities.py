"""The cosines that a trial gives to the pairs of a task."""

from typing import TYPE_CHECKING, cast

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.store.score_tables import PairSetRecord, PairSimilaritiesRecord
from cse_platform.leaderboard.store.tables import TrialRecord
from cse_platform.tracking.packing import unpack_cosines, unpack_gold

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Similarities, Split


def similarities(
    session: Session, trial_key: str, task: str, identity: str | None = None
) -> "Similarities":
    """The cosines that a trial gives to the pairs of a task, and their gold scores.

    Without an identity, it is the only evaluation on the task's test pairs.

    Raises:
        NotFoundError: if there are none.
        AmbiguousError: if there are several and no identity is given.
    """
    which = (
        PairSetRecord.split == "test"  # the geometry may have stored STS-B's dev pairs too
        if identity is None
        else PairSimilaritiesRecord.identity == identity
    )
    query = (
        select(PairSimilaritiesRecord)
        .join(PairSimilaritiesRecord.trial)
        .join(PairSimilaritiesRecord.pair_set)
        .options(contains_eager(PairSimilaritiesRecord.pair_set))
        .where(TrialRecord.key == trial_key, PairSimilaritiesRecord.task == task, which)
        .order_by(PairSimilaritiesRecord.identity)
    )
    found = session.scalars(query).all()
    if not found:
        under = "" if identity is None else f" under identity {identity!r}"
        raise NotFoundError(
            f"trial {trial_key!r} has no similarities on {task!r}{under}; "
            "cse-evaluate on the trial stores them"
        )
    if len(found) > 1:
        raise AmbiguousError(
            f"trial {trial_key!r} has similarities on {task!r} under several identities; "
            f"name one of {', '.join(one.identity for one in found)}"
        )
    return _unpacked(found[0])


def _unpacked(stored: PairSimilaritiesRecord) -> "Similarities":
    from cse_methods.evaluation.results import Similarities

    pairs = stored.pair_set
    return Similarities(
        task=stored.task,
        split=cast("Split", pairs.split),
        identity=stored.identity,
        cosines=unpack_cosines(stored.cosines),
        gold=unpack_gold(pairs.gold),
        subsets=pairs.subsets,
        data_sha256=pairs.data_sha256,
    )
