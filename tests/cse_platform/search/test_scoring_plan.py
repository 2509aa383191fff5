"""Which trials a sweep scores on test sets."""

from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_platform.search.confirmation import plan_scoring
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History


def test_a_test_file_that_changed_is_scored_again_and_named() -> None:
    def plan(sha256: str, *scored_on: str) -> tuple[list[str], list[str], list[str]]:
        files = {"mine": {"file": "mine.tsv", "sha256": sha256 * 64}}
        spec = SweepSpec.model_validate(
            {
                "sweep": "first", "method": "rankcse", "backbone": "mini", "corpus": "builtin",
                "space": {"tau2": [0.025, 0.05]}, "search": {"trials": 2},
                "evaluate": {"top": 1, "tasks": ["stsb", "mine"], "files": files},
            }
        )  # fmt: skip
        assert spec.evaluate is not None
        tasks = spec.evaluate.parsed_tasks
        history = [sweep_started(), *trial_life(0, {5: 0.7}), *trial_life(1, {5: 0.6})]
        settings = plan_scoring(History(history), spec, tasks).settings
        history += [
            trial_evaluated("c0-42", {}, tasks=("stsb", f"mine {each * 64}"), settings=settings)
            for each in scored_on
        ]
        found = plan_scoring(History(history), spec, tasks)
        return [trial.key for trial in found.waiting], [*found.changed], [*found.notes()]

    assert plan("a") == (["c0-42"], [], [])
    assert plan("a", "a") == ([], [], [])
    waiting, changed, [note] = plan("b", "a")
    assert (waiting, changed) == (["c0-42"], ["mine"])
    assert note.startswith("mine changed after trials were scored on it: 1 trial will be scored")
    assert plan("b", "a", "b") == ([], [], [])
