"""Comparisons: two rows with the verdict in words, and every row with every other."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from operator import itemgetter

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.names import backbone_name, method_name, task_name
from cse_platform.leaderboard.statistics.compare import (
    ComparedRow,
    Comparison,
    Matrix,
    TaskComparison,
)
from cse_platform.leaderboard.trials import is_trial_reference
from cse_platform.numbers import (
    first_percents,
    percent,
    probability,
    short_settings,
    signed_percent,
)
from cse_platform.presentation.board_columns import (
    ALPHA,
    OVER_EXAMPLES,
    OVER_EXAMPLES_MEANS,
    interval_cell,
    join_marks,
)
from cse_platform.presentation.board_entries import LEGEND, TRAINING_MARKS
from cse_platform.presentation.tables import Cell, Column, Document, Table, to_csv, to_table
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.values import group_by

SIGNIFICANT = {"**": 0.01, "*": ALPHA}
"""Marks by their limit of p, strictest first."""


def comparison_table(comparison: Comparison) -> Table:
    """Make a table with a line for each task and the average, and the verdict in words."""
    average = [comparison.average] if comparison.average else []
    return to_table(
        TASK_COLUMNS,
        [comparison.tasks, average],
        title=f"{comparison.a} against {comparison.b}, scores x 100",
        notes=(
            *(
                f"{side}: {describe_row(row)}"
                for side, row in zip("AB", comparison.rows, strict=False)
            ),
            *verdict(comparison),
            *describe_limits(comparison),
        ),
        legend={OVER_EXAMPLES: OVER_EXAMPLES_MEANS},
    )


def describe_row(row: ComparedRow) -> str:
    """Describe a row in words: method and configuration, backbone, dev set and seeds.

    Seeds that lack scores are listed by what they lack.
    """
    mark = TRANSDUCTIVE * ("transductive" in row.marks)
    lacking = group_by(row.unscored_seeds.items(), itemgetter(1))
    return (
        f"{row.reference}{mark} on {row.backbone}, {row.dev_search} ({row.dev_source}), "
        + _format_seeds(row.seeds)
        + "".join(
            f"; not scored{' on ' * bool(tasks)}{', '.join(tasks)}: "
            + _format_seeds([seed for seed, _ in seeds])
            for tasks, seeds in lacking.items()
        )
        + f"; chosen by {first_percents(row.chosen_by.values())}" * bool(row.chosen_by)
    )


def _list_tasks(comparison: Comparison) -> list[str]:
    average = [comparison.average] if comparison.average else []
    return [task.task for task in (*comparison.tasks, *average)]


def _format_seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {' '.join(map(str, seeds))}"


def describe_limits(compared: Comparison | Matrix) -> Iterator[str]:
    """Describe what limits the conclusions from a comparison, a sentence each."""
    yield from _describe_seeds(compared)
    yield from _describe_choice(compared)
    yield from _describe_training(compared)
    yield from _describe_tests(compared)


def _describe_seeds(compared: Comparison | Matrix) -> Iterator[str]:
    limits = compared.limits
    for name in limits.single:
        yield (f"{name} has one seed, so no interval or p value includes its variation over seeds.")
    if limits.unpaired:
        yield f"No values of the same examples of {', '.join(limits.unpaired)}: over seeds only."
    if limits.pairs_seeds:
        tasks = compared.tasks if isinstance(compared, Matrix) else _list_tasks(compared)
        is_partial = not {*tasks}.issubset(limits.pairs_seeds)
        on = f" on {', '.join(limits.pairs_seeds)}" * is_partial
        yield (
            f"Seeds paired{on}: configurations of one method on one backbone with the same seeds "
            "are compared seed by seed."
        )
    elif len(compared.rows) == 2:
        yield from _explain_unpaired_seeds(*compared.rows)


def _explain_unpaired_seeds(a: ComparedRow, b: ComparedRow) -> Iterator[str]:
    """Say which seeds keep two configurations of a method from being compared seed by seed, if
    these are seeds that do not count because a search chose by them.
    """
    alone = {*a.seeds} ^ {*b.seeds}
    left_out = {row.name: sorted(alone & row.chosen_by.keys() - {*row.seeds}) for row in (a, b)}
    one_method = a.reference.partition("@")[0] == b.reference.partition("@")[0]
    if one_method and a.backbone == b.backbone and alone == set().union(*left_out.values()):
        for name, seeds in left_out.items():
            if seeds:
                listed = f"seed{'s' * (len(seeds) > 1)} {' '.join(map(str, seeds))}"
                yield (
                    f"Not compared seed by seed, because {listed} of {name} chose it in a search "
                    "and does not count."
                )


def _describe_choice(compared: Comparison | Matrix) -> Iterator[str]:
    unchecked = [row.name for row in compared.rows if row.dev_source in UNCHECKED_DATA]
    reference = {row.name: row.reference for row in compared.rows}
    for name in compared.limits.chosen:
        way_out = "scores of two further seeds give an honest estimate"
        if is_trial_reference(name):
            way_out += f" ({reference[name]} has all seeds)"
        if name in unchecked:
            way_out = "all runs that were imported or recorded count as those of a search"
        yield (
            f"A value by which a search chose {name} counts here, so its mean tends to be too high "
            f"and this comparison looks surer than it is; {way_out}."
        )
    for shared in compared.limits.one_configuration:
        yield (
            f"{shared.a} and {shared.b} are one configuration, so they have no true difference"
            + f"; {shared.trials} of their trials are the same" * bool(shared.trials)
            + "."
        )
    for name in compared.limits.opened:
        yield (
            f"{name} was chosen after such test sets had been opened for its method and backbone, "
            "so their scores may have influenced the choice."
        )


def _describe_training(compared: Comparison | Matrix) -> Iterator[str]:
    limits = compared.limits
    for mark, shown in TRAINING_MARKS.items():
        if marked := [row.name for row in compared.rows if mark in row.marks]:
            yield f"{LEGEND[shown].removesuffix('.')}: {', '.join(marked)}."
    for name in limits.other_code:
        yield f"{name}: newer trials of its method, backbone and dev sets ran other code."
    if limits.mixes_code:
        method = compared.rows[0].reference.partition("@")[0]
        yield f"They ran different code of {method}, so a difference may come from the code."
    if limits.corpora:
        by_corpus = group_by(limits.corpora.items(), itemgetter(1))
        listed = "; ".join(
            f"{corpus}: {', '.join(name for name, _ in named)}"
            for corpus, named in by_corpus.items()
        )
        yield f"Trained on different corpora, from which a difference may come: {listed}."
    if limits.fixed:
        listed = "; ".join(f"{short_settings(of)}: {name}" for name, of in limits.fixed.items())
        if isinstance(compared, Matrix):
            listed = ", ".join(dict.fromkeys(name for of in limits.fixed.values() for name in of))
        yield f"Settings differ, from which a difference may come: {listed}."


def _describe_tests(compared: Comparison | Matrix) -> Iterator[str]:
    limits = compared.limits
    for reading in limits.readings:
        listed = ", ".join(f"{name} {a} against {b}" for name, (a, b) in reading.values.items())
        yield f"{reading.a} and {reading.b} read their texts differently: {listed}."
    for name, problem in limits.without_pairs.items():
        yield f"{name} is compared over its seeds only: {problem}."
    if limits.left_out:
        yield (
            f"Left out, scored on other tasks or data: {', '.join(limits.left_out)}; --identity "
            "selects the rows of one evaluation."
        )
    if (on_all := limits.all_rows) is not None:
        a, b = (row.name for row in compared.rows)
        yield (
            f"On all rows, the papers' protocol, {a} - {b} is {signed_percent(on_all.effect)} on "
            + on_all.column
            + f": clean rows change it by {signed_percent(on_all.change or 0)}"
            * (on_all.change is not None)
            + "."
        )
    if limits.ungrouped:
        yield (
            f"Which pairs of {', '.join(limits.ungrouped)} share a sentence is unknown; if many "
            "do, the intervals are too short."
        )


def verdict(comparison: Comparison) -> Iterator[str]:
    """State the verdict in a sentence: on the average, or on each task if there is no average."""
    a, b, average = comparison.a, comparison.b, comparison.average
    corrected = " after Holm's correction" * (average is None and len(comparison.tasks) > 1)
    for task in comparison.tasks if average is None else [average]:
        by = f"{a} - {b} is {signed_percent(task.effect)} on {task.task}"
        if (p := task.p_holm if average is None else task.p) is None:
            yield f"{by}; single or equal seeds of such scores give no interval."
            continue
        shown = probability(p)
        equal = f"< {shown[1:]}" if shown.startswith("<") else f"= {shown}"
        interval = interval_cell(task.interval).text if task.interval else "unknown"
        claim = f"{a} is {'above' if task.effect > 0 else 'below'} {b}"
        if p >= ALPHA:
            claim = f"{a} and {b} cannot be distinguished"
        sentence = f"{claim}: {by}, 95 % interval {interval}, p {equal}{corrected}"
        if single := [name for name, n in ((a, task.n_a), (b, task.n_b)) if n == 1]:
            whose = "its" if len(single) == 1 else "their"
            on = f"With one seed of {' and one of '.join(single)}"
            sentence = f"{on}, {sentence}; {whose} other seeds may differ"
        yield f"{sentence}."


def matrix_table(matrix: Matrix) -> Table:
    """Make a table of each row's score minus each column's; columns are named by row numbers."""

    def make_column(other: int) -> Column[int]:
        def effect(row: int) -> Cell | None:
            if row == other:
                return None
            p = matrix.p_holm[row][other]
            sure = (mark for mark, limit in SIGNIFICANT.items() if p is not None and p < limit)
            names = {matrix.names[row], matrix.names[other]}
            single = p is not None and not names.isdisjoint(matrix.limits.single)
            mark = join_marks(next(sure, ""), OVER_EXAMPLES * single)
            return Cell(signed_percent(matrix.effects[row][other]), mark=mark)

        return Column(str(other + 1), effect, align="right")

    several = "mean over " * (len(matrix.tasks) > 1)
    mean = matrix.average or several + ", ".join(matrix.tasks)
    indices = range(len(matrix.names))
    means = "after Holm's correction over all pairs"
    meanings = {mark: f"p < {p}, {means}." for mark, p in SIGNIFICANT.items()}
    return to_table(
        [
            Column("#", lambda row: row + 1),
            Column("row", lambda row: matrix.names[row]),
            *map(make_column, indices),
        ],
        [indices],
        title=f"Row minus column, {mean}, x 100",
        notes=(
            *(f"{row.name}: {describe_row(row)}" for row in matrix.rows),
            *describe_limits(matrix),
        ),
        legend={**meanings, OVER_EXAMPLES: OVER_EXAMPLES_MEANS},
    )


def _in_papers_form(
    table: Table, rows: Sequence[ComparedRow], tasks: Iterable[str]
) -> Sequence[Table]:
    """Spell methods, backbones and tasks of a table as papers do."""
    methods = dict.fromkeys(row.reference.partition("@")[0] for row in rows)
    names = {name: backbone_name(name) for name in (row.backbone for row in rows)}
    names |= {name: task_name(name) for name in (*tasks, *(row.dev_search for row in rows))}
    names |= {name: method_name(name) for name in methods}
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, names))})(?![\w./@-]*\w)")

    def spell(text: str) -> str:
        """Replace whole words; METHOD@CONFIGURATION stays, as commands take it."""
        return pattern.sub(lambda word: names[word[0]], text)

    spelt = replace(
        table,
        title=spell(table.title),
        groups=tuple(
            tuple(tuple(replace(cell, text=spell(cell.text)) for cell in row) for row in group)
            for group in table.groups
        ),
        notes=tuple(map(spell, table.notes)),
    )
    return [spelt]


def comparison_document(comparison: Comparison) -> Document:
    """Make the document of a comparison; CSV has a line for each task, then for the average."""

    def make_column(name: str) -> Column[TaskComparison]:
        return Column(name, lambda _: getattr(comparison, name))

    counts = Column[TaskComparison]("n_a"), Column[TaskComparison]("n_b")
    columns = [*map(make_column, ("a", "b")), *counts, *TASK_COLUMNS, Column("examples")]
    tasks = [*comparison.tasks, *filter(None, [comparison.average])]
    named = [name.removeprefix("dev ") for name in _list_tasks(comparison)]
    return Document(
        lambda: [comparison_table(comparison)],
        lambda: to_csv(columns, tasks),
        lambda: comparison,
        lambda: _in_papers_form(comparison_table(comparison), comparison.rows, named),
    )


def matrix_document(matrix: Matrix) -> Document:
    """Make the document of a matrix; CSV has a line for every ordered pair of rows."""
    numbers = {"effect": matrix.effects, "p": matrix.p, "p_holm": matrix.p_holm}

    def make_column(name: str) -> Column[tuple[int, int]]:
        return Column(name, lambda pair: numbers[name][pair[0]][pair[1]])

    a = Column[tuple[int, int]]("a", lambda pair: matrix.names[pair[0]])
    b = Column[tuple[int, int]]("b", lambda pair: matrix.names[pair[1]])
    indices = range(len(matrix.names))
    return Document(
        lambda: [matrix_table(matrix)],
        lambda: to_csv([a, b, *map(make_column, numbers)], permutations(indices, 2)),
        lambda: matrix,
        lambda: _in_papers_form(
            matrix_table(matrix), matrix.rows, filter(None, (*matrix.tasks, matrix.average))
        ),
    )


_make_number_column = partial(Column[TaskComparison], align="right")

TASK_COLUMNS: tuple[Column[TaskComparison], ...] = (
    Column("task"),
    _make_number_column("mean_a", title="A", format=percent),
    _make_number_column("mean_b", title="B", format=percent),
    _make_number_column("effect", title="A - B", format=signed_percent),
    _make_number_column(
        "interval",
        title="95 % interval",
        format=interval_cell,
        parts=(
            Column("interval_low", "interval.low"),
            Column("interval_high", "interval.high"),
            Column("interval_over", "interval.over"),
        ),
    ),
    _make_number_column("p", format=probability),
    _make_number_column("p_holm", title="p (Holm)", format=probability),
    _make_number_column("williams_t", title="Williams t", format=lambda t: f"{t:z.2f}"),
    _make_number_column("williams_p", title="Williams p", format=probability),
    _make_number_column("williams_p_holm", title="Williams p (Holm)", format=probability),
)
