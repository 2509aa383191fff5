import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from board_rows import estimate, row
from commands import invoke
from scored_boards import RESAMPLES
from sqlalchemy import select
from stored_trials import fill_store
from sweep_events import sweep_started, trial_life

from cse_methods.data.dev_selection import DevSelection
from cse_methods.errors import CseError
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.errors import ComparisonError, NotFoundError
from cse_platform.kept_models import TRIAL_FILE
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.comparisons import DevPairs, compare_dev_rows
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.statistics.compare import compare
from cse_platform.leaderboard.statistics.intervals import Contender
from cse_platform.presentation.comparison import describe_limits
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import TestAccessRecord
from cse_platform.sweep.identity import dev_identity
from cse_platform.tracking.events import Event

OWN = [f"the cat sees dog {n}\ta dog sees cat {n // 2}\t{1 + n % 5}\n" for n in range(40)]
POOLERS = {"simcse": ("avg", "cls"), "esimcse": ("avg_top2",), "hicl": ("cls",)}


@pytest.fixture(scope="module")
def lab(tmp_path_factory, empty_leaderboard) -> str:
    """Kept models of three methods; hicl's dev set is different. The URL of the leaderboard."""
    import torch
    from safetensors.torch import load_file, save_file

    from cse_methods.encoders.loading import load_encoder
    from cse_methods.training.dev_evaluation import DevSuite

    folder = tmp_path_factory.mktemp("lab")
    (folder / "my-dev.tsv").write_text("".join(OWN))
    own = {"checkpoint": str(folder / "my-dev.tsv"), "search": "my-dev", "also": []}
    events: list[Event] = []
    for method, poolers in POOLERS.items():
        dev = DevSelection.model_validate({} if method == "hicl" else own)
        spec = {"sweep": method, "data": "builtin", "dev": dev.model_dump(mode="json")}
        events.append(sweep_started(method, method=method, spec=spec))
        for seed, pooler in enumerate(poolers):
            encoder = load_encoder("mini", pooler=pooler)
            trial = f"{len(method):x}{seed}" * 32
            encoder.save(folder / method / pooler)
            weights = folder / method / pooler / "model.safetensors"
            head = {"pooler.dense.bias": torch.zeros(192)}  # as the library writes BERT
            save_file({**load_file(weights), **head}, weights, {"format": "pt"})
            (folder / method / pooler / TRIAL_FILE).write_text(f"{trial}\n")
            score = DevSuite(dev, data="builtin").evaluate(encoder)[f"dev/{dev.search}_spearman"]
            source = "builtin" if method == "hicl" else "file"
            told = {"checkpoint": dev.checkpoint, "search": dev.search, "source": source}
            told |= {"identity": dev_identity(dev, "builtin"), "corpus": "builtin"}
            of = {"sweep": method, "method": method, "configuration": f"{len(method):x}" * 64}
            of |= {"seed": seed, "trial": trial, "model": str(folder / method / pooler)}
            events += trial_life(seed, {0: -1.0, 4: score}, dev=told, **of)
    return fill_store(empty_leaderboard(folder / "leaderboard.db"), events)


def test_other_code_is_told() -> None:
    """The code of the first row is older; the second has none on record, as if imported."""

    def no_pairs(key: str) -> DevPairs:
        raise CseError("no kept model")

    old = row(other_code=True)
    new = row(configuration=replace(old.configuration, code="d" * 64))
    imported = row(configuration=replace(old.configuration, code=None))
    told = {
        name: list(describe_limits(compare_dev_rows({"A": old, "B": other}, no_pairs)))
        for name, other in {"new": new, "same": row(), "imported": imported}.items()
    }
    newer = "A: newer trials of its method, backbone and dev sets ran other code."
    assert all(newer in lines for lines in told.values())
    mixed = "They ran different code of simcse, so a difference may come from the code."
    assert {name for name, lines in told.items() if mixed in lines} == {"new"}


def test_a_seed_that_chose_elsewhere_explains_why_seeds_are_not_paired() -> None:
    """Of B, seed 3 chose it in some search; of C, nothing says why it lacks that seed."""

    def no_pairs(key: str) -> DevPairs:
        raise CseError("no kept model")

    def of(letter: str, *seeds: int, **changes: Any) -> LeaderboardRow:
        scores = estimate(*(0.6 + seed / 100 for seed in seeds), identity="d1")
        scores = replace(scores, values={seed: 0.6 + seed / 100 for seed in seeds})
        keys = {seed: f"{letter}{seed}" * 32 for seed in seeds}
        one = row(dev_score=scores, seeds=list(seeds), keys=keys, **changes)
        return replace(one, configuration=replace(one.configuration, hash=letter * 64))

    whole = of("a", 0, 1, 2, 3)
    others = {"B": of("b", 0, 1, 2, chosen_by={3: 0.9}), "C": of("c", 0, 1, 2)}
    told = {
        name: list(describe_limits(compare_dev_rows({"A": whole, name: other}, no_pairs)))
        for name, other in others.items()
    }
    why = "Not compared seed by seed, because seed 3 of B chose it in a search and does not count."
    assert why in told["B"]
    assert not any("seed by seed" in line for line in told["C"])


def pairs_of(reader: Leaderboard) -> Callable[[str], DevPairs]:
    from cse_platform.export.kept_model import dev_pairs

    return lambda key: dev_pairs(reader.trial(key))


def test_it_is_the_comparison_of_their_scores_and_cosines(lab, caplog) -> None:
    with open_leaderboard(lab) as reader:
        dev_pairs = pairs_of(reader)
        found = reader.compare_on_dev("simcse", "esimcse", dev_pairs)
        rows = {row.method: row for row in reader.rows(ranked=False)}
        sides, two_share = [], np.repeat(np.arange(20), 2)
        for name in ("simcse", "esimcse"):
            row = rows[name]
            pairs = [dev_pairs(row.keys[seed]) for seed in row.seeds]
            scores = {"dev my-dev": [row.dev_score.values[seed] for seed in row.seeds]}
            cosines = {"dev my-dev": np.stack([one.cosines for one in pairs])}
            gold, groups = {"dev my-dev": pairs[0].gold}, {"dev my-dev": two_share}
            sides.append(Contender(name, scores, cosines, gold, groups))
    expected = compare(sides[0], sides[1], tasks=["dev my-dev"], average=None, resamples=RESAMPLES)
    assert found.tasks == expected.tasks
    (task,) = found.tasks
    assert (task.n_a, task.n_b, task.examples) == (2, 1, 40)
    assert task.effect == pytest.approx(
        rows["simcse"].dev_score.mean - rows["esimcse"].dev_score.mean
    )
    assert task.interval is not None and task.interval.low <= task.effect <= task.interval.high
    assert not caplog.text  # nothing of weights that the models hold for nothing


def test_unlike_dev_sets_are_refused_and_models_that_score_otherwise(lab) -> None:
    with (
        open_leaderboard(lab) as reader,
        pytest.raises(ComparisonError, match=r"my-dev \(file, .* and stsb \(builtin, .*--identity"),
    ):
        reader.compare_on_dev("simcse", "hicl", pairs_of(reader))
    with open_leaderboard(lab) as reader:
        name, row = reader.row("simcse")
        taken = replace(row, dev=replace(row.dev, identity="other", source="imported"))
        with pytest.raises(ComparisonError, match=r"not known to be the same: .* of one source"):
            compare_dev_rows({name: row, "taken": taken}, pairs_of(reader))
        taken = replace(taken, dev=replace(taken.dev, search="stsb"))
        with pytest.raises(
            ComparisonError, match=r"on different dev sets: .* no comparison on dev is"
        ):
            compare_dev_rows({name: row, "taken": taken}, pairs_of(reader))

        def other(key: str) -> DevPairs:
            pairs = pairs_of(reader)(key)
            return pairs._replace(cosines=-pairs.cosines)

        found = reader.compare_on_dev("simcse", "esimcse", other)
    assert found.tasks[0].examples is None
    assert all("was recorded" in why for why in found.limits.without_pairs.values())
    assert found.limits.without_pairs


def test_no_data_is_looked_for_without_a_model(lab) -> None:
    """A recorded trial's dev set is on a hub that may be out of reach."""
    from cse_platform.export.kept_model import dev_pairs

    with open_leaderboard(lab) as reader:
        kept = reader.trial("simcse")
    recorded = replace(kept, model=None, dev=replace(kept.dev, identity="other", source="hub"))
    with pytest.raises(NotFoundError, match="has no model: its best checkpoint was not kept"):
        dev_pairs(recorded)


def test_without_a_model_it_is_over_seeds_and_says_why(lab) -> None:
    def gone(key: str) -> DevPairs:
        raise NotFoundError(f"the model of trial {key[:4]} is gone")

    with open_leaderboard(lab) as reader:
        found = reader.compare_on_dev("simcse", "simcse", gone)
    (task,) = found.tasks
    assert task.examples is None
    assert task.interval is not None and task.interval.over == "seeds"
    assert "is gone" in found.limits.without_pairs["simcse (A)"]
    assert any("one configuration" in s and "2 of their" in s for s in describe_limits(found))


GUARDED = """
import sys
from cse_methods.guard import guard
guard()
from cse_platform.cli.leaderboard import main
main(sys.argv[1:])
"""


ASKED = ("compare", "simcse", "esimcse", "--on", "dev", "--json")


def test_the_command_tells_the_comparison(lab) -> None:
    assert '"dev my-dev"' in invoke(cse_leaderboard, *ASKED, "--store", lab).output


@pytest.mark.slow
def test_the_command_opens_no_test_set(lab) -> None:
    asked = (*ASKED, "--store", lab)
    ended = subprocess.run(
        [sys.executable, "-c", GUARDED, *asked], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert '"dev my-dev"' in ended.stdout
    with open_store(lab, create=False) as store, store.session() as session:
        assert session.scalars(select(TestAccessRecord)).all() == []
