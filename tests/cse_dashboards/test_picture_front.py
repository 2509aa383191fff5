import re

import pytest
from page_text import text, told
from sweep_events import sweep_started, trial_life

from cse_dashboards.figures.search.front import pareto_front_picture
from cse_dashboards.page.app import create_app
from cse_platform.errors import QueryError
from cse_platform.leaderboard import open_leaderboard
from cse_platform.tracking.events import Event

AIMS = [("dev", "maximize"), ("alignment", "minimize")]
FILE = {
    "sweep": "both", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "space": {"temperature": [0.05, 0.1]},
    "search": {
        "trials": 4, "constraints": ["uniformity <= -1.5"],
        "objectives": [{"name": name, "direction": direction} for name, direction in AIMS],
    },
}  # fmt: skip
# Dev, alignment, uniformity: two on the front, one below both, one that breaks the constraint.
TRIALS = ((0.70, 0.30, -2.0), (0.60, 0.20, -2.0), (0.55, 0.25, -2.0), (0.90, 0.10, -1.0))


@pytest.fixture(scope="module")
def url(filled_with) -> str:
    events: list[Event] = [sweep_started("both", spec=FILE), sweep_started("one", spec={})]
    for number, (value, alignment, uniformity) in enumerate(TRIALS):
        measured = {"dev/alignment": alignment, "dev/uniformity": uniformity}
        events += trial_life(
            number, {0: 0.5, 10: value}, sweep="both", trial=f"{number:x}" * 64,
            configuration=f"{number + 6:x}" * 64, values={"temperature": 0.05},
            searched=("temperature",), measured=measured,
        )  # fmt: skip
    return filled_with(*events)


def test_the_front_is_marked_among_the_others(url: str) -> None:
    with open_leaderboard(url) as reader:
        with pytest.raises(QueryError, match="'one' has one objective"):
            reader.front("one")
        picture = pareto_front_picture(reader.front("both"))
    assert picture.figure is not None and picture.data is not None
    shown = {one.name: sorted(zip(one.x, one.y, strict=True)) for one in picture.figure.data}
    assert shown == {
        "on the front": [(0.2, 60.0), (0.3, 70.0)],
        "dominated": [(0.25, pytest.approx(55.0))],
        "infeasible": [(0.1, 90.0)],
    }
    assert list(picture.data["trial"]) == [3, 1, 2, 0]
    assert "break uniformity <= -1.5" in picture.caption
    axes = picture.figure.layout
    assert axes.yaxis.title.text == "STS-B dev, Spearman × 100"
    assert axes.xaxis.title.text == "dev, alignment"


def test_the_page_shows_it_and_no_trial_that_breaks_a_constraint_is_the_best(url: str) -> None:
    page = create_app(url).test_client()
    assert "search_front" in told(page, "/parts/search/sweeps/both")
    progress = text(told(page, "/parts/live/sweeps/both"))
    assert re.search("1 of 4 .* uniformity <= -1.5", progress)
    assert "70.00, trial 0" in progress  # the best that keeps it
    page = create_app(url).test_client().get(f"/trials/{'3' * 64}").text
    assert "best: #0" in page
    assert "the best of its sweep" not in page
    with open_leaderboard(url) as reader:
        assert reader.best_of_sweep("one") is None
