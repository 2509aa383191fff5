"""How a configuration did over its complete seeds, counted anew whenever one of them changes."""

from math import fsum

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import ConfigurationRecord, TrialRecord


def count_complete(session: Session, configuration: int) -> None:
    """Bring a configuration's count, mean and spread up to date.

    A configuration has few seeds, so their values are read again: a running mean would depend on
    the order in which trials came, in its last digit.
    """
    query = select(TrialRecord.best_value).where(
        TrialRecord.configuration_id == configuration, TrialRecord.state == "COMPLETE"
    )
    values = [value for value in session.scalars(query) if value is not None]
    record = session.get_one(ConfigurationRecord, configuration)
    record.n = len(values)
    record.mean = mean = fsum(values) / len(values) if values else None
    record.m2 = 0.0 if mean is None else fsum((value - mean) ** 2 for value in values)
