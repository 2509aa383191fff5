from cse_platform.presentation.trial import score_grid
from cse_platform.tracking.events import TrialScore


def test_scores_of_a_task_are_one_row_and_a_second_evaluation_is_another() -> None:
    def score(task: str, metric: str, value: float, *, split: str, identity: str) -> TrialScore:
        of = {"task": task, "split": split, "metric": metric, "identity": identity}
        return TrialScore.model_validate({**of, "value": value})

    listed = [
        score("mr", "accuracy", 0.9, split="test", identity="a"),
        score("sts12", "spearman", 0.5, split="test", identity="a"),
        score("sts12", "clean", 0.4, split="test", identity="b"),
        score("sts12", "spearman", 0.6, split="test", identity="c"),
        score("stsb", "alignment", 0.25, split="dev", identity="d"),
        score("stsb", "spearman", 0.7, split="dev", identity="d"),
    ]
    table = score_grid([*listed[1:2], *listed])
    assert [head.name for head in table.heads] == [
        *("task", "split", "spearman", "accuracy", "clean", "alignment")
    ]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["STS-B", "dev", "70.00", "", "", "0.2500"],
        ["STS12 (a)", "test", "50.00", "", "", ""],
        ["STS12 (b)", "test", "", "", "40.00", ""],  # of which of the two, nothing here says
        ["STS12 (c)", "test", "60.00", "", "", ""],
        ["MR", "test", "", "90.00", "", ""],
    ]
