"""The audit of the papers' claims as tables and a document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from cse_methods.tasks import AVG_STS, AVG_TRANSFER
from cse_platform.leaderboard.audit import AGREEMENT, Claim, Verdict
from cse_platform.numbers import percent, signed_percent
from cse_platform.presentation.board_columns import interval_cell
from cse_platform.presentation.tables import (
    Cell,
    Column,
    Document,
    Table,
    to_csv,
    to_record,
    to_table,
)
from cse_platform.values import group_by

VERDICT_MARKS: dict[Verdict, str] = {"apart": "≠", "apart, if not selected": "∼", "not apart": "≈"}

LEGEND = {
    "≠": "apart: the 95 % interval of the difference, over seeds and pairs, excludes 0.",
    "∼": "apart, unless the best was selected on these scores: the low end is within best of n.",
    "≈": "not apart: the interval includes 0.",
}

NOTES = (
    "pairs, seeds: standard errors of the difference. Pairs: from the printed scores of the tasks, "
    f"an agreement of two encoders of {AGREEMENT[AVG_STS]} on STS and {AGREEMENT[AVG_TRANSFER]} on "
    "transfer, and how far pairs that share sentences widen intervals.",
    "best of n: how far the best of the n settings that the paper is known to have tried would be "
    "too high if they differed by seeds alone.",
    "to decide: seeds a side with which compare has 80 % power at 5 %, on these test sets / on "
    "others of the kind; - where no number is enough.",
)


def audit_tables(claims: Sequence[Claim]) -> list[Table]:
    """Make a table of each paper's claims; notes under the last one explain the columns."""
    papers = list(group_by(claims, lambda claim: claim.paper).values())
    return [
        to_table(
            _COLUMNS,
            group_by(of_paper, lambda claim: (claim.table, claim.column)).values(),
            title=f"{of_paper[0].paper}: its best against the best other, x 100",
            notes=(*_note_claims(of_paper), *(NOTES if of_paper is papers[-1] else ())),
            legend=LEGEND,
        )
        for of_paper in papers
    ]


def _note_claims(claims: Sequence[Claim]) -> Iterator[str]:
    """Count the verdicts, what clean rows change if both rows of a claim are trained here, and the
    sources of spreads.
    """
    above = [claim for claim in claims if claim.difference > 0]
    counts = Counter(claim.verdict for claim in above)
    yield (
        f"The best is above the best other in {len(above)} of {len(claims)}: "
        f"{'; '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICT_MARKS)}."
    )
    both = [claim.ours_turns for claim in claims if claim.ours is not None]
    turned = [turns for turns in both if turns is not None]
    if turned:
        yield (
            f"clean rows: our own difference on all rows, then without the rows that dev sets and "
            f"earlier tasks have; {sum(turned)} of {len(turned)} turn."
        )
    if lacking := len(both) - len(turned):
        yield (
            f"{lacking} of {len(both)} that are trained here have no clean scores; "
            "cse-evaluate TRIAL --tasks sts computes those of a trial."
        )
    sources = Counter(source for claim in claims for source in claim.seeds_sources)
    listed = "; ".join(f"{source} ({count})" for source, count in sources.most_common())
    yield f"Spreads over seeds are from: {listed}."


def audit_document(claims: Sequence[Claim]) -> Document:
    """Make the document of an audit; JSON and CSV have an object or a line for each claim."""
    return Document(
        lambda: audit_tables(claims),
        lambda: to_csv(_COLUMNS, claims),
        lambda: [to_record(_COLUMNS, claim) for claim in claims],
    )


_make_score_column = partial(Column[Claim], format=percent, align="right")

_make_hidden_column = partial(Column[Claim], shown=lambda _: None)
"""Makes a column for JSON and CSV that tables for people do not show."""

_COLUMNS: tuple[Column[Claim], ...] = (
    _make_hidden_column("paper"),
    Column("table"),
    Column("backbone"),
    Column("column", title="score"),
    Column("best"),
    _make_score_column("best_score", title="its score"),
    Column("rival", title="best other"),
    _make_score_column("rival_score", title="its score"),
    Column(
        "difference",
        shown=lambda claim: Cell(
            signed_percent(claim.difference), mark=VERDICT_MARKS[claim.verdict]
        ),
        align="right",
    ),
    Column(
        "interval",
        format=interval_cell,
        title="95 % interval",
        align="right",
        parts=(Column("interval_low", "interval.low"), Column("interval_high", "interval.high")),
    ),
    _make_score_column("pairs_error", title="pairs"),
    _make_score_column("seeds_error", title="seeds"),
    _make_hidden_column("seeds_sources"),
    Column(
        "settings",
        shown=lambda claim: f"{percent(claim.selection)} of {claim.settings}",
        title="best of n",
        align="right",
    ),
    _make_hidden_column("selection"),
    Column(
        "seeds_needed",
        title="to decide",
        shown=lambda claim: " / ".join(
            "-" if seeds is None else f"{seeds:,}"
            for seeds in (claim.seeds_needed, claim.seeds_needed_elsewhere)
        ),
        align="right",
    ),
    _make_hidden_column("seeds_needed_elsewhere"),
    Column(
        "ours",
        lambda claim: (
            None
            if claim.ours is None
            else {"whole": claim.ours, "clean": claim.ours_clean, "turns": claim.ours_turns}
        ),
        shown=lambda claim: (
            None
            if claim.ours is None or claim.ours_clean is None
            else f"{signed_percent(claim.ours)}, {signed_percent(claim.ours_clean)}"
            + ", turns" * bool(claim.ours_turns)
        ),
        title="clean rows",
        parts=(Column("ours"), Column("ours_clean"), Column("ours_turns")),
    ),
    _make_hidden_column("verdict"),
)
