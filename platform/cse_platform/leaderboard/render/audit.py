"""The audit of the papers' claims as tables for people, and as JSON and CSV for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from cse_methods.tasks import AVG_STS, AVG_TRANSFER
from cse_platform.leaderboard.published.audit import AGREEMENT, Audit, Claim, Verdict
from cse_platform.leaderboard.render.board import interval_cell
from cse_platform.render.formats import percent, signed_percent
from cse_platform.render.table import Cell, Column, Table, group_by, to_csv, to_record, to_table

VERDICT_MARKS: dict[Verdict, str] = {"apart": "≠", "apart, if not selected": "∼", "not apart": "≈"}
LEGEND = {
    "≠": "apart: the 95 % interval of the difference, over seeds and pairs, leaves out 0.",
    "∼": "apart, unless the best was selected on these scores: the low end is within best of n.",
    "≈": "not apart: the interval holds 0.",
}
NOTES = (
    "pairs, seeds: standard errors of the difference. Pairs: from the printed scores of the tasks, "
    f"an agreement of two encoders of {AGREEMENT[AVG_STS]} on STS and {AGREEMENT[AVG_TRANSFER]} on "
    "transfer, and how far pairs that share sentences widen intervals.",
    "best of n: how far the best of the n settings that the paper is known to have tried would be "
    "too high if they differed by seeds alone.",
    "to decide: seeds a side for 80 % power at 5 %, on these test sets / on others of the kind; "
    "- where no number is enough.",
)


def audit_tables(audit: Audit) -> list[Table]:
    """Make a table of each paper's claims; notes under the last one explain the columns."""
    papers = list(group_by(audit.claims, lambda claim: claim.paper).values())
    return [
        to_table(
            _COLUMNS,
            group_by(claims, lambda claim: (claim.table, claim.column)).values(),
            title=f"{claims[0].paper}: its best against the best other, x 100",
            notes=(
                *_count_verdicts(claims),
                *_count_clean_checks(claims),
                *_list_sources(claims),
                *(NOTES if claims is papers[-1] else ()),
            ),
            legend=LEGEND,
        )
        for claims in papers
    ]


def audit_records(audit: Audit) -> list[dict[str, Any]]:
    """Make a JSON object for each claim."""
    return [to_record(_COLUMNS, claim) for claim in audit.claims]


def audit_csv(audit: Audit) -> str:
    """Write a CSV line for each claim."""
    return to_csv(_COLUMNS, audit.claims)


def _count_verdicts(claims: Sequence[Claim]) -> Iterator[str]:
    above = [claim for claim in claims if claim.difference > 0]
    counts = Counter(claim.verdict for claim in above)
    yield (
        f"The best is above the best other in {len(above)} of {len(claims)}; of these "
        f"{', '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICT_MARKS)}."
    )


def _count_clean_checks(claims: Sequence[Claim]) -> Iterator[str]:
    """Describe what clean rows change if both rows of a claim are trained here."""
    both = [claim.ours for claim in claims if claim.ours is not None]
    turned = [ours.turns for ours in both if ours.turns is not None]
    if turned:
        yield (
            f"clean rows: our own difference on all rows, then without the rows that dev sets and "
            f"earlier tasks have; {sum(turned)} of {len(turned)} turn."
        )
    if lacking := len(both) - len(turned):
        yield (
            f"{lacking} of {len(both)} that are trained here have no clean scores; "
            "`cse-evaluate TRIAL --tasks sts` computes those of a trial."
        )


def _list_sources(claims: Sequence[Claim]) -> Iterator[str]:
    counts = Counter(source for claim in claims for source in claim.seeds_sources)
    listed = "; ".join(f"{source} ({count})" for source, count in counts.most_common())
    yield f"Spreads over seeds are from: {listed}."


def _format_difference(claim: Claim) -> Cell:
    return Cell(signed_percent(claim.difference), mark=VERDICT_MARKS[claim.verdict])


def _format_selection(claim: Claim) -> str:
    return f"{percent(claim.selection)} of {claim.settings}"


def _format_clean_check(claim: Claim) -> str | None:
    ours = claim.ours
    if ours is None or ours.clean is None:
        return None
    turns = ", turns" * bool(ours.turns)
    return f"{signed_percent(ours.whole)}, {signed_percent(ours.clean)}{turns}"


def _format_seeds_needed(claim: Claim) -> str:
    both = (claim.seeds_needed, claim.seeds_needed_elsewhere)
    return " / ".join("-" if seeds is None else f"{seeds:,}" for seeds in both)


def _make_column(name: str, title: str = "", **more: Any) -> Column[Claim]:
    return Column(name, lambda claim: getattr(claim, name), title=title, **more)


def _make_score_column(name: str, title: str = "") -> Column[Claim]:
    return _make_column(name, title, format=percent, align="right")


def _make_hidden_column(name: str) -> Column[Claim]:
    """Make a column for JSON and CSV that tables for people do not show."""
    return _make_column(name, shown=lambda _: None)


def _make_end_column(name: str) -> Column[Claim]:
    return Column(f"interval_{name}", lambda claim: getattr(claim.interval, name))


def _make_part_of_ours(name: str, path: str) -> Column[Claim]:
    return Column(name, lambda claim: getattr(claim.ours, path) if claim.ours else None)


_COLUMNS: tuple[Column[Claim], ...] = (
    _make_hidden_column("paper"),
    _make_column("table"),
    _make_column("backbone"),
    _make_column("column", "score"),
    _make_column("best"),
    _make_score_column("best_score", "its score"),
    _make_column("rival", "best other"),
    _make_score_column("rival_score", "its score"),
    _make_column("difference", shown=_format_difference, align="right"),
    replace(
        _make_column("interval", "95 % interval", format=interval_cell, align="right"),
        parts=tuple(map(_make_end_column, ("low", "high"))),
    ),
    _make_score_column("pairs_error", "pairs"),
    _make_score_column("seeds_error", "seeds"),
    _make_hidden_column("seeds_sources"),
    _make_column("settings", shown=_format_selection, title="best of n", align="right"),
    _make_hidden_column("selection"),
    _make_column("seeds_needed", "to decide", shown=_format_seeds_needed, align="right"),
    _make_hidden_column("seeds_needed_elsewhere"),
    Column(
        "ours",
        lambda claim: claim.ours and {**asdict(claim.ours), "turns": claim.ours.turns},
        shown=_format_clean_check,
        title="clean rows",
        parts=tuple(
            _make_part_of_ours(name, path)
            for name, path in (("ours", "whole"), ("ours_clean", "clean"), ("ours_turns", "turns"))
        ),
    ),
    _make_hidden_column("verdict"),
)
