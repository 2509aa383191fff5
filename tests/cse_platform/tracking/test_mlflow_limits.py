"""Names, texts and metrics that MLflow would refuse are changed until it takes them."""

from math import inf, isnan, nan

from mlflow_history import (
    JOURNAL,
    client_of,
    contents,
    finished,
    numbered,
    point,
    runs_in,
    sweep_started,
    trial_started,
)

from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.tags import clean_name, text


def test_values_that_mlflow_would_refuse_are_fitted(uri) -> None:
    odd = {"train/loss@5": nan, "../up": inf, "a//b": -inf, "x" * 300: 1.0}
    values = {"prompt": "p" * 7000, "empty": "", "weights": {"b": 1, "a": [True, None]}}
    values |= {f"setting_{number}": number for number in range(150)}
    events = [
        sweep_started(spec={"note": "n" * 9000}),
        trial_started(1, values=values),
        point(2, 0, nan, **odd),
        finished(3, state="FAIL", error="e" * 9000, best_metrics={"dev/stsb_spearman": nan}),
    ]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    MLflowMirror(uri).apply(JOURNAL, numbered(events))

    data = runs_in(uri)["rankcse 3f2a91bc seed 42 (#0)"].data
    assert data.params["prompt"] == "p" * 5999 + "…"
    assert data.params["weights"] == '{"a":[true,null],"b":1}'
    assert len(data.params) == 154
    assert len(data.tags["error"]) == 8000
    assert isnan(data.metrics["train/loss_5"])
    assert {"up", "a/b", "x" * 250} <= set(data.metrics)
    assert len(contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]["curves"]["dev/stsb_spearman"]) == 1


def test_names_and_texts() -> None:
    names = {"dev/stsb_spearman": "dev/stsb_spearman", "": "_", "..": "_", "//ä b": "_ b"}
    assert {name: clean_name(name) for name in names} == names
    assert text("abc", limit=3) == "abc"
    assert text("abcd", limit=3) == "ab…"
    assert text("a\0b", limit=6) == "a\\x00b"


def test_more_points_than_a_batch_takes(uri) -> None:
    more = {f"train/loss_{number}": float(number) for number in range(600)}
    events = [sweep_started(), trial_started(1), *(point(2 + n, n, 0.5, **more) for n in range(2))]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    client, run = client_of(uri), runs_in(uri)["rankcse 3f2a91bc seed 42 (#0)"]
    assert run.data.metrics.items() >= {**more, "dev/stsb_spearman": 0.5}.items()
    for name in ("train/loss_0", "train/loss_599", "dev/stsb_spearman"):
        assert len(client.get_metric_history(run.info.run_id, name)) == 2
