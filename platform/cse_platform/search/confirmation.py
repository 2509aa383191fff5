"""Choose which configurations get further seeds, and rank those that a sweep can choose."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from cse_methods.tasks import Tasks
from cse_platform.counting_seeds import (
    find_choosing_trials,
    rate_seeds,
    select_counting_seeds,
)
from cse_platform.leaderboard.records import BestKey, best_key
from cse_platform.leaderboard.statistics.searches import find_survivors
from cse_platform.numbers import format_count
from cse_platform.search.repeats import choose_repeat
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory


def dev_values(seeds: Iterable[TrialHistory]) -> list[float]:
    """List the dev scores of a configuration's seeds."""
    return [trial.best_value for trial in seeds if trial.best_value is not None]


def best_configurations(
    configurations: Iterable[list[TrialHistory]], *, chose: Collection[str]
) -> list[list[TrialHistory]]:
    """Rank the configurations of a sweep, the best on dev first.

    Takes the complete trials of each, and the keys of those that chose among them. Uses the
    leaderboard's rule on these seeds alone.
    """

    def key(seeds: list[TrialHistory]) -> BestKey:
        choosing = [trial.seed for trial in seeds if trial.key in chose]
        counted = select_counting_seeds([trial.seed for trial in seeds], choosing)
        repeats = sum(trial.role == "repeat" for trial in seeds)
        return best_key(
            standing=rate_seeds(len(seeds), len(seeds) - len(choosing), repeats),
            mean=fmean(dev_values(trial for trial in seeds if trial.seed in counted)),
            configuration=seeds[0].configuration,
        )

    return sorted(configurations, key=key, reverse=True)


def to_confirm(history: History, *, top: int) -> list[TrialHistory]:
    """Choose the configurations to run with further seeds, each by its first trial, best first.

    They are the `top` ones by the mean dev score of their trials in the search. The number of times
    that the search repeated a configuration says nothing about its quality.
    """
    configurations = history.configurations().values()
    searched = [[t for t in trials if t.role != "confirm"] for trials in configurations]

    def key(seeds: list[TrialHistory]) -> BestKey:
        mean, name = fmean(dev_values(seeds)), seeds[0].configuration
        return best_key(standing=1, mean=mean, configuration=name)

    return [seeds[0] for seeds in sorted(filter(None, searched), key=key, reverse=True)[:top]]


def count_left_behind(history: History, spec: SweepSpec) -> int:
    """Count the further seeds of configurations that get none now: others became better since."""
    confirm = spec.seeds.confirm
    if confirm is None:
        return 0
    confirmed = {first.configuration for first in to_confirm(history, top=confirm.top)}
    further = (trial for trial in history.trials.values() if trial.role == "confirm")
    return sum(trial.configuration not in confirmed for trial in further)


def choose_repeated(history: History) -> TrialHistory | None:
    """Choose the configuration that gets a further seed during the search, by its first trial.

    Returns None where a new configuration is expected to gain more. A configuration that has a
    failed seed is never chosen.
    """
    failed = {trial.configuration for trial in history.trials.values() if trial.state == "FAIL"}
    tried = {
        name: trials
        for name, trials in history.configurations().items()
        if trials[0].role == "search" and name not in failed
    }
    running = [t.configuration for t in history.unfinished() if t.role == "repeat"]
    scores = {name: dev_values(trials) for name, trials in tried.items()}
    chosen = choose_repeat(scores, running=running, trials=history.searched)
    return None if chosen is None else tried[chosen][0]


def further_seeds(history: History, spec: SweepSpec) -> Iterator[tuple[TrialHistory, int]]:
    """Yield the first trial of a configuration with a seed that it still lacks, in order.

    In a race, every configuration that can still be the best begins a seed before any of them
    begins the next one; it need not end first, because a free device costs no extra time. Trials
    that are recorded during the iteration count from its next step on.
    """
    confirm = spec.seeds.confirm
    if confirm is None:
        return
    best = to_confirm(history, top=confirm.top)

    def tried(first: TrialHistory) -> dict[int, TrialHistory]:
        trials = history.trials.values()
        return {trial.seed: trial for trial in trials if trial.configuration == first.configuration}

    if not confirm.race:
        yield from ((first, s) for first in best for s in confirm.seeds if s not in tried(first))
        return
    for seed in spec.seeds.further:
        # A score of the search was used to choose the configuration: it is biased upwards.
        fresh = {
            first.key: {
                s: t.best_value if t.role == "confirm" and t.state == "COMPLETE" else None
                for s, t in tried(first).items()
                if t.state != "RUNNING"
            }
            for first in best
        }
        racing = find_survivors(fresh, seeds=spec.seeds.further)
        yield from (
            (first, seed) for first in best if first.key in racing and seed not in tried(first)
        )


def chosen_trials(history: History, *, top: int) -> list[TrialHistory]:
    """List the complete trials of the `top` best configurations, the best first."""
    configurations = history.configurations().values()
    chose = find_choosing_trials(history.trials.values(), confirms_all=history.confirms_all)
    best = best_configurations(configurations, chose=chose)
    return [trial for seeds in best[:top] for trial in seeds]


@dataclass(frozen=True)
class Scoring:
    """What `evaluate:` of a sweep scores."""

    settings: str
    """What scores depend on besides the trial and the tasks."""
    chosen: Sequence[TrialHistory]
    """The complete trials of its best configurations."""
    waiting: Sequence[TrialHistory]
    """Those that lack a score on one of the tasks."""
    changed: Sequence[str]
    """The own test sets of which these are scored on rows that have changed since."""

    def notes(self) -> Iterator[str]:
        """Say which test sets are opened again, because they have changed."""
        if self.changed:
            trials = format_count(len(self.waiting), "trial")
            yield (
                f"{', '.join(self.changed)} changed after trials were scored on it: {trials} will "
                "be scored on it as it is now, which opens it again, and the earlier scores stay "
                "as another evaluation"
            )


def plan_scoring(history: History, spec: SweepSpec, tasks: Tasks) -> Scoring:
    """Find the trials that a sweep scores on test sets, given as `with_snapshots` returns them."""
    evaluate = spec.evaluate
    if evaluate is None:
        return Scoring("", (), (), ())
    settings = json.dumps({"data": spec.data, "slicing_length": evaluate.slicing_length})
    chosen = chosen_trials(history, top=evaluate.top)
    scored = {trial.key: trial.evaluated.get(settings, set()) for trial in chosen}
    waiting = [trial for trial in chosen if not tasks.parts <= scored[trial.key]]
    lacking = set[str]().union(*(tasks.parts - scored[trial.key] for trial in waiting))
    before = {part.rpartition(" ")[0] for trial in waiting for part in scored[trial.key]}
    changed = sorted({part.rpartition(" ")[0] for part in lacking} & before - {""})
    return Scoring(settings, chosen, waiting, changed)
