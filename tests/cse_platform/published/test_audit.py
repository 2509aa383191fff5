import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from board_rows import estimate, our_row

from cse_methods.names import PAPER_PAGES
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.audit import Claim, audit_claims
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.statistics.compare import correlation_difference_error
from cse_platform.presentation.audit import audit_tables
from cse_platform.presentation.formats import to_markdown

Write = Callable[..., Path]


def printed(method: str, settings: str, score: float, std: str = "", task: str = "avg_sts") -> str:
    return f"lab,1,bert-base,{method},{settings},{task},test,spearman,{score},{std},-"


def test_a_claim_by_hand_and_over_the_pairs_of_printed_tasks(lab_file: Write) -> None:
    file = lab_file(
        printed("lab", "seeds=4;x=1", 80.0, "0.6"),
        printed("lab", "seeds=4;x=2", 79.5, "0.1"),
        printed("other", "seeds=16", 79.0, "1.6"),
        printed("third", "seeds=4", 78.0, "0.1"),
    )
    [claim] = audit_claims("lab", files=[file])
    assert (claim.best, claim.rival) == ("lab (seeds=4, x=1)", "other (seeds=16)")
    assert claim.difference == pytest.approx(0.01)
    assert claim.pairs_error is None  # no scores of the tasks
    assert claim.seeds_error == pytest.approx(math.hypot(0.006 / 2, 0.016 / 4))
    assert claim.seeds_sources == ("lab 1, 4 seeds", "lab 1, 16 seeds")
    # Two settings: the higher of two is 1 / sqrt(pi) of a standard error of four seeds too high.
    assert (claim.settings, claim.selection) == (2, pytest.approx(0.003 / math.sqrt(math.pi)))
    assert claim.interval.low == pytest.approx(0.01 - 1.959964 * 0.005)
    assert claim.verdict == "apart, if not selected"  # .0002 is less than .0017
    # One seed a side: hypot(.6, 1.6) = 1.709. Welch's degrees of freedom are 1.276 (n - 1); with
    # them a noncentral t gives 79.2 % for 24 seeds and 80.9 % for 25.
    assert (claim.seeds_needed, claim.seeds_needed_elsewhere) == (25, 25)
    tasks = (*STS_TASKS, "avg_sts")
    rows = [printed(name, "", 80, task=task) for name in ("lab", "other") for task in tasks]
    [claim] = audit_claims("lab", files=[lab_file(*rows)])
    factors = (1.99, 1.51, 1.23, 1.05, 1.24, 1.09, 1.28)
    pairs = (3108, 1500, 3750, 3000, 1186, 1379, 4927)
    errors = [
        factor * correlation_difference_error(0.8, 0.8, 0.9, number)
        for factor, number in zip(factors, pairs, strict=True)
    ]
    assert claim.pairs_error == pytest.approx(math.sqrt(sum(e**2 for e in errors)) / 7)
    assert claim.seeds_sources[0].startswith("median of ")
    assert (claim.verdict, claim.seeds_needed) == ("not apart", None)


def test_the_papers_own_claims() -> None:
    """A spread is of the row with most settings in common."""
    audited = audit_claims()
    [claim] = [
        one
        for one in audited
        if (one.paper, one.table, one.backbone) == ("hicl", "table1", "bert-large")
    ]
    assert claim.best.startswith("hicl (base=sncse")
    assert claim.seeds_sources[0] == "hicl table15, 3 seeds"
    assert claim.selection / claim.settings == pytest.approx(0.003 * 1.8675 / 20, rel=1e-3)
    main = {
        *(("compcse", "table1"), ("hicl", "table1"), ("hicl", "table15")),
        *(("rankcse", "table2"), ("whitenedcse", "table1")),
    }
    claims = [claim for claim in audited if (claim.paper, claim.table) in main]
    above = [round(claim.difference, 6) for claim in claims if claim.difference > 0]
    assert (len(claims), len(above), sum(by >= 0.006 for by in above)) == (19, 11, 5)


def test_a_recent_paper_without_other_rows_is_compared_with_the_four(lab_file: Write) -> None:
    claims = {(one.paper, one.table, one.backbone): one for one in audit_claims()}
    claim = claims["tncse", "readme", "bert-base"]
    assert claim.rival == "rankcse (rank_loss=listmle), rankcse table2"
    assert round(100 * claim.difference, 2) == 0.24 and claim.verdict == "not apart"
    assert claim.pairs_error is not None and claim.seeds_error == pytest.approx(0.004, rel=0.02)
    assert claims["cotbert", "table2", "bert-base"].rival == "rankencoder"  # of its own table
    # Other data and earlier papers claim nothing against them.
    assert claims.keys().isdisjoint(
        {("syncse", "readme", "roberta-base"), ("promptbert", "readme", "bert-base")}
    )
    assert claims["denosent", "appendix_table1", "bert-base"].best.endswith("toolkit=mteb)")
    recent = [one for one in claims.values() if one.paper not in PAPER_PAGES]
    above = [one for one in recent if one.difference > 0]
    apart = [(one.paper, one.backbone) for one in above if one.verdict != "not apart"]
    assert (len(recent), len(above), apart) == (18, 7, [("cotbert", "roberta-base")])
    alone = lab_file(printed("lab", "", 90))  # without a year
    assert audit_claims("lab", files=[alone]) == []


@pytest.fixture(scope="module")
def claim() -> Claim:
    return audit_claims("rankcse")[0]


def test_the_verdict_is_that_of_the_interval(claim) -> None:
    # 0.02 -+ 1.96 x 0.005, or 1.96 x 0.0112 with the noise of pairs.
    noise = {"seeds_error": 0.005, "pairs_error": 0.0, "selection": 0.01}
    above = replace(claim, rival_score=claim.best_score - 0.02, **noise)
    assert above.verdict == "apart"
    assert replace(above, selection=0.011).verdict == "apart, if not selected"
    assert replace(above, pairs_error=0.01).verdict == "not apart"
    assert replace(above, rival_score=claim.best_score + 0.02, selection=1.0).verdict == "apart"


def test_clean_rows_are_of_both_or_of_none(lab_file) -> None:
    file = lab_file(*(printed(*one)[:-1] + "{}" for one in (("lab", "", 80), ("old", "", 79))))

    def row(name: str, whole: float, clean: float | None = None, **more: Any) -> LeaderboardRow:
        scores = {"avg_sts": estimate(whole)}
        scores |= {} if clean is None else {"avg_sts_clean": estimate(clean)}
        return our_row(name, scores=scores, **more)

    def check(*ours: LeaderboardRow) -> tuple[float, float | None, bool | None] | None:
        [claim] = audit_claims("lab", ours, files=[file])
        whole, clean = claim.ours, claim.ours_clean
        return whole and (round(whole, 4), clean and round(clean, 4), claim.ours_turns)

    mine, theirs = row("lab", 0.72, 0.70), row("old", 0.71, 0.705)
    assert check(mine, theirs) == (0.01, -0.005, True)
    assert check(row("lab", 0.73, 0.72), theirs) == (0.02, 0.015, False)
    assert check(row("lab", 0.72), theirs) == (0.01, None, None)
    assert check(mine) is None and check(theirs) is None and check() is None
    assert check(mine, row("old", 0.71, 0.705, search="sickr")) is None  # leaves out other rows
    assert check(mine, row("old", 0.71, 0.705, source="builtin")) is None
    many = row("old", 0.69, 0.69, dev=(0.7, 0.7))  # a row of two seeds comes first
    assert check(mine, theirs, many) == (0.03, 0.01, False)

    def shown(*ours: LeaderboardRow) -> str:
        return to_markdown(audit_tables(audit_claims("lab", ours, files=[file])))

    assert "+1.00, -0.50, turns" in shown(mine, theirs)
    assert "clean rows" not in shown(mine)
