"""What a search takes over from earlier sweeps when it starts. It is looked up once."""

from cse_platform.leaderboard.query.board.leading import Leading, leading_configurations
from cse_platform.leaderboard.store.opening import Store
from cse_platform.render.formats import percent
from cse_platform.sweep.space.start_points import Leaders
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History

MOST_LEADERS = 3
"""So many configurations `leaderboard` stands for."""


def leaders(
    history: History, spec: SweepSpec, leaderboard: Store, *, dev_identity: str
) -> Leaders | None:
    """What `start_from: [leaderboard]` stands for: what it stood for at the sweep's first start.

    None if the sweep does not ask for it. While a sweep runs the best of the leaderboard changes,
    so a later start must not look it up again.
    """
    if "leaderboard" not in spec.search.start_from:
        return None
    if history.leaders is not None:
        return history.leaders
    with leaderboard.session() as session:
        found = leading_configurations(
            session,
            method=spec.method,
            backbone=spec.backbone,
            dev_identity=dev_identity,
            but=spec.sweep,
            limit=MOST_LEADERS,
        )
    return {_whose(one, place): one.values for place, one in enumerate(found, start=1)}


def _whose(one: Leading, place: int) -> str:
    seeds = f"{one.seeds} seed{'s' * (one.seeds > 1)}"
    return f"number {place} on {one.backbone}, of {one.sweep} (dev {percent(one.mean)}, {seeds})"
