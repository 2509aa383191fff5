"""The notes below a leaderboard's tables: what its marks mean, and what limits its ranking."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.published.released import SCORED_BY
from cse_platform.leaderboard.families import OWN, FamilyName, is_clean, task_of
from cse_platform.leaderboard.records import CLAIMED, DEV, LeaderboardRow, mean_change
from cse_platform.leaderboard.statistics.compare import expected_maximum
from cse_platform.numbers import signed_percent
from cse_platform.presentation.board_columns import ALPHA, short_digits
from cse_platform.presentation.board_entries import (
    ABOVE,
    APART,
    CHOICE_MEANS,
    CHOSEN,
    LEGEND,
    PUBLISHED,
    Board,
    EntryColumn,
    Group,
    OurEntry,
)
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.values import group_by

MOST_NAMED = 5
"""The most rows that a note of ties names; it counts more of them."""
_EXAMPLES = {"sts": "pairs", "clean": "pairs", "transfer": "texts", "ranking": "queries"}
"""What a task has values of, by its family; other families have tasks of several kinds."""


def explain_marks(board: Board, *, ranked: bool = False) -> dict[str, str]:
    """Explain the marks of a table, which may be ranked; the row that others are compared with is
    named.
    """
    legend = {CHOSEN: " ".join(_explain_choice(board, ranked=ranked))} | LEGEND
    if board.against:
        reference = next(iter(board.against.values())).b  # the same for all rows
        sure = f"p < {ALPHA} (tasks: after Holm's correction)"
        legend[ABOVE] = f"Above {reference} with {sure}."
    return legend


def _explain_choice(board: Board, *, ranked: bool) -> Iterator[str]:
    chosen = [entry for entry in Group(board.entries).ours if entry.counting_choice]
    scores = [entry.scores[name] for entry in chosen for name in entry.counting_choice]
    has_interval = ranked and any(score.interval for score in scores)
    interval = ", and its interval covers less than 95 %" * has_interval
    yield f"{CHOICE_MEANS}{interval}."
    sources = {entry.row.dev.source for entry in chosen}
    if any(
        entry.row.dev.source not in UNCHECKED_DATA and entry.row.method != SCORED_BY
        for entry in chosen
    ):
        yield "Scores of two further seeds in the row give an honest estimate."
    if sources & UNCHECKED_DATA:
        yield "All runs that were imported or recorded count as those of a search."


def count_identities(columns: Sequence[EntryColumn], group: Group) -> dict[str, int]:
    """Count the evaluation identities of each score column that has several."""
    counts = {}
    for name in (column.name for column in columns if column.compared):
        scores = [entry.scores[name] for entry in group.listed if name in entry.scores]
        ids = {score.identity for score in scores if score.identity is not None}
        if len(ids) > 1:
            counts[name] = len(ids)
    return counts


def note_identities(columns: Sequence[EntryColumn], mixed: Mapping[str, int]) -> Iterator[str]:
    """Name the score columns that have several evaluation identities, as their heads do."""
    heads = {column.name: column.head.name for column in columns}
    by_kind = group_by(mixed, lambda name: (mixed[name], is_clean(name)))
    for (count, clean), names in by_kind.items():
        yield (
            f"{', '.join(map(heads.__getitem__, names))}: {count} evaluation identities, which are "
            f"not ranked together: {'other dev sets leave other clean rows, ' * clean}texts are "
            "read differently, or data are not known to be the same."
        )


def describe_clean_change(rows: Sequence[LeaderboardRow], headline: str) -> Iterator[str]:
    """Describe how scores change if only clean rows are scored."""
    whole = task_of(headline)
    both = [row for row in rows if is_clean(headline) and {headline, whole} <= row.scores.keys()]
    every = [mean_change(row.scores[headline], row.scores[whole]) for row in both]
    if changes := [change for change in every if change is not None]:
        ends = dict.fromkeys(map(signed_percent, (min(changes), max(changes))))
        yield f"Against all rows, the papers' protocol, {whole} changes by {' to '.join(ends)}."


def note_rows(group: Group) -> Iterator[str]:
    """Note what kinds of rows there are."""
    rows = [entry.row for entry in group.ours]
    if group.published:
        yield f"{PUBLISHED} Published, not ours; the number leads to its source."
    encoders = [row.released for row in rows if row.released]
    if any(entry.standing == APART for entry in group.listed) or any(e.apart for e in encoders):
        yield (
            "(ensemble), (supervised), (llm), (multimodal), (transductive): of several encoders, "
            "or trained on labelled pairs, on what a language model wrote, on images or sound, or "
            "on sentences of test sets. Published rows with these are not ranked with the others."
        )
    if encoders:
        yield (
            "(released): its authors' encoder, scored here and not trained; its backbone is the "
            "one that it started from."
        )
    if any(TRANSDUCTIVE in row.corpus for row in rows):
        yield (
            f"{TRANSDUCTIVE.strip()}: trained on the texts of test sets, without gold scores; "
            "its scores are not comparable with others."
        )


def note_ranking(board: Board, group: Group) -> Iterator[str]:
    """Note what limits the ranking of a group."""
    rows = [entry.row for entry in group.ours]
    if names := dict.fromkeys(
        row.shown_method for row in rows for s in row.scores.values() if s.source == CLAIMED
    ):
        yield f"Claimed, from files of results of another revision: scores of {', '.join(names)}."
    yield from _note_choices(group.ours)
    if any(row.gap for row in rows):
        yield (
            "paper: ours minus the published number, and whether the published one lies inside "
            "our interval."
        )
    yield from _note_ties(rows, board.family)
    if board.family == OWN and len(board.columns.columns) > 1:
        yield "Each own test set has a column; sort by another one to rank by it."
    yield from _note_unranked(board, group)
    by_pooler: dict[str, dict[str, None]] = {}
    for row in rows:
        if pooler := row.configuration.compared_values.get("pooler"):
            by_pooler.setdefault(pooler, {})[row.shown_method] = None
    if len(by_pooler) > 1:
        poolers = "; ".join(f"{pooler}: {', '.join(of)}" for pooler, of in by_pooler.items())
        yield f"The rows use different poolers ({poolers})."
    yield from describe_clean_change(rows, board.headline)
    trained = [row for row in rows if row.dev.source not in UNCHECKED_DATA]
    lacking = sum(board.headline not in row.scores for row in trained)
    if is_clean(board.headline) and lacking:
        yield (
            f"{lacking} of {len(trained)} trained rows have no clean scores; cse-evaluate TRIAL "
            "--tasks sts computes those of a trial."
        )


def _note_unranked(board: Board, group: Group) -> Iterator[str]:
    """Count the rows that have no rank, by the reason; a single row needs no note."""
    if len(group.ours) < 2 or not board.ranked:
        return
    if (ranks_by := group.ours[0].headline) != group.headline:  # all of a group share it
        yield (
            f"Not ranked: the leaderboard ranks by {ranks_by}, which these rows lack; filters that "
            "keep no others rank them."
        )
        return
    ranked = [entry.row for entry in group.ours]
    scored = [(row, score) for row in ranked if (score := row.ranked_score) is not None]
    alike = Counter(
        score.identity
        for row in board.rows
        if (row.headline or DEV) == group.headline and (score := row.ranked_score) is not None
    )
    alone = [alike[s.identity] == 1 for r, s in scored if r.rank is not None and r.rank.among == 1]
    counted = {
        "with a single seed and no stored scores of its pairs": sum(
            r.rank is None and s.n == 1 for r, s in scored
        ),
        "comparable with these alone": alone.count(False),
        "scored as no other row here is": alone.count(True),
        "without this score": len(ranked) - len(scored),
    }
    why = [f"{n} {reason}" for reason, n in counted.items() if n]
    if why:
        yield f"Not ranked: {', '.join(why)}."


def _note_choices(entries: Sequence[OurEntry]) -> Iterator[str]:
    """Name the numbers that each row is the best of; that of a single one needs no note."""
    rows = [entry.row for entry in entries]
    by_kind = group_by(
        (row for row in rows if row.best_of > 1), lambda row: row.dev_score.counts_choice
    )
    for counts_choice, some in by_kind.items():
        with_names = zip(_name_rows(some, rows), some, strict=True)
        each = dict.fromkeys(f"{name} (best of {row.best_of})" for name, row in with_names)
        named = ", ".join(each)
        if counts_choice:
            yield f"Chosen by values that count here: {named}."
        else:
            most = max(row.best_of for row in some)
            yield (
                f"Chosen on dev by the mean over the seeds that count: {named}. If {most} "
                "configurations were equal, the mean of the best would be "
                f"{expected_maximum(most):.1f} standard errors too high on dev."
            )
    if untested := [
        each for each in entries if each.counting_choice and DEV not in each.counting_choice
    ]:
        for what, lacking in group_by(untested, _name_lacking).items():
            names = ", ".join(dict.fromkeys(each.method for each in lacking))
            yield (
                f"The further seeds of {names} lack {what}, so the seed that chose it counts "
                "there; cse-evaluate scores the others."
            )


def _name_lacking(entry: OurEntry) -> str:
    lacking = entry.row.lacking_in(sorted(entry.counting_choice))
    is_all = {*lacking} == entry.scores.keys() - {DEV}
    return "test scores" if is_all else f"scores on {', '.join(lacking)}"


def note_fewer_seeds(columns: Collection[str], group: Group) -> Iterator[str]:
    """Name the scores in these columns that lack seeds of their row, which `n` counts; it counts
    those of the headline.
    """
    rows = [entry.row for entry in group.ours]
    lacking = list[str]()
    for name, entry in zip(_name_rows(rows, rows), group.ours, strict=True):
        scored = [c for c in columns if c in entry.scores and c not in (DEV, group.headline)]
        for count, tasks in group_by(scored, entry.count_seeds).items():
            if " of " in count:
                lacking.append(f"{name} {', '.join(tasks)} {count}")
    if lacking:
        more = f", and {len(lacking) - MOST_NAMED} more" * (len(lacking) > MOST_NAMED)
        yield f"Over fewer seeds than the row: {'; '.join(lacking[:MOST_NAMED])}{more}."


def _name_rows(named: Sequence[LeaderboardRow], among: Sequence[LeaderboardRow]) -> list[str]:
    """Name rows by their methods, or by their references where rows among these share a method."""
    alike = Counter(row.shown_method for row in among)
    return [row.reference if alike[row.shown_method] > 1 else row.shown_method for row in named]


def _note_ties(rows: Sequence[LeaderboardRow], family: FamilyName) -> Iterator[str]:
    """Name the rows that may each be the best, as seeds leave their order open, and on a family of
    test sets its examples.
    """
    first = [row for row in rows if row.rank and row.rank.best == 1 < row.rank.worst]
    identities = {row.ranked_score.identity for row in rows if row.ranked_score}
    for identity, tied in group_by(
        first, lambda row: row.ranked_score.identity if row.ranked_score else ""
    ).items():
        if len(tied) < 2:
            continue
        of = f" of evaluation {short_digits(identity)}" * (len(identities) > 1)
        names = _name_rows(tied, rows)
        named = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} rows"
        others = "seeds"
        if tied[0].headline is not None:
            others += f" or test {_EXAMPLES.get(family, 'examples')}"
        yield f"Tied for first{of}: {named}. With other {others}, any of them may be the best."
