from collections.abc import Callable
from itertools import pairwise
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution as Float
from optuna.distributions import IntDistribution as Int
from optuna.samplers import BaseSampler
from optuna.testing import pytest_samplers as suites

from cse_platform.search.proposals import Draft
from cse_platform.search.samplers.cmaes import ReplayedCmaEs
from cse_platform.search.samplers.gp import NoisyGp
from cse_platform.search.samplers.qmc import WholeSpaceQmc
from cse_platform.sweep.samplers import Gp
from cse_platform.sweep.space.space import Space

SLOW = pytest.mark.slow
NewSampler = Callable[[], BaseSampler]
NUMERICAL = [
    Float(-1.0, 1.0),
    Float(1e-7, 1.0, log=True),
    Float(-10, 10, step=0.5),
    Int(3, 10),
    Int(1, 100, log=True),
    Int(3, 9, step=2),
]
"""Those of the suite, which takes all pairs: half a minute with a Gaussian process."""


def new_gp() -> BaseSampler:
    return NoisyGp(Gp(startup_trials=1), seed=1)


def new_cmaes() -> BaseSampler:
    return ReplayedCmaEs(seed=1)


def new_qmc() -> BaseSampler:
    space = Space.model_validate({"elsewhere": {"low": 0.0, "high": 1.0}})
    return WholeSpaceQmc(space, seed=1)


Both = (suites.BasicSamplerTestCase, suites.RelativeSamplerTestCase)


@SLOW
class NoisyGpSuite(*Both):  # type: ignore[misc]
    __test__ = True

    @pytest.fixture
    def sampler(self) -> NewSampler:
        return new_gp

    @pytest.mark.parametrize(("x", "y"), list(pairwise([*NUMERICAL, NUMERICAL[0]])))
    def test_sample_relative_numerical(self, sampler, x, y) -> None:
        super().test_sample_relative_numerical(sampler, x, y)


@SLOW
class ReplayedCmaEsSuite(*Both):  # type: ignore[misc]
    """A TPE draws choices, so the suite's tests of choices beside numbers do not apply."""

    __test__ = True
    test_sample_relative_mixed = None

    @pytest.fixture
    def sampler(self) -> NewSampler:
        return new_cmaes

    def test_sample_relative_categorical(self, sampler: NewSampler) -> None:
        study = optuna.create_study()
        trial = study.ask({"x": CategoricalDistribution([1, 10]), "y": NUMERICAL[0]})
        study.tell(trial, 0.5)
        drawn = study.get_trials()[0]
        assert sampler().infer_relative_search_space(study, drawn) == {"y": NUMERICAL[0]}


@SLOW
class WholeSpaceQmcSuite(*Both, suites.MultiObjectiveSamplerTestCase):  # type: ignore[misc]
    """Its space is not that of the suite, whose dimensions are drawn one by one therefore."""

    __test__ = True

    @pytest.fixture
    def sampler(self) -> NewSampler:
        return new_qmc


@pytest.mark.parametrize(
    ("suite", "sampler"),
    [(NoisyGpSuite, new_gp), (ReplayedCmaEsSuite, new_cmaes), (WholeSpaceQmcSuite, new_qmc)],
)
def test_each_sampler_keeps_a_chosen_few_of_the_contracts(suite: Any, sampler: NewSampler) -> None:
    """The suites themselves, which are slow, keep them all."""
    suite().test_float(sampler, NUMERICAL[1])
    suite().test_int(sampler, NUMERICAL[5])
    suite().test_categorical(sampler, (1, "a"))
    suite().test_conditional_sample_independent(sampler)
    suite().test_nan_objective_value(sampler)
    suite().test_partial_fixed_sampling(sampler)
    suite().test_sample_single_distribution(sampler)
    suite().test_conditional_parameter_objective(sampler)
    if suite is not NoisyGpSuite:  # seconds
        suite().test_sample_relative_numerical(sampler, NUMERICAL[0], NUMERICAL[4])
    suite().test_sample_relative_categorical(sampler)


@pytest.fixture
def study() -> optuna.Study:
    """A study of two trials, of which the first has ended."""
    found = optuna.create_study(direction="maximize")
    for _ in range(2):
        found.ask({"x": Float(0.0, 1.0)})
    found.tell(0, 0.5)
    return found


def test_a_draft_answers_for_the_trial_that_is_drawn_and_for_no_other(study: optuna.Study) -> None:
    draft = Draft(study)
    trial = draft.restart()
    storage: Any = draft
    storage.set_trial_system_attr(trial._trial_id, "drawn", 1)
    assert storage.get_trial(trial._trial_id).system_attrs == {"drawn": 1}
    for call in (
        lambda: storage.get_trial(0),
        lambda: storage.get_trial_system_attrs(0),
        lambda: storage.set_trial_system_attr(0, "drawn", 1),
        lambda: storage.set_trial_param(0, "x", 0.5, Float(0.0, 1.0)),
    ):
        with pytest.raises(KeyError, match="trial 0 is not drawn here"):
            call()
    assert [one.number for one in draft.study.get_trials()] == [0, 1, 2]
    assert len(study.get_trials()) == 2


def test_a_draft_has_no_answer_about_the_study_that_it_would_get_wrong(study: optuna.Study) -> None:
    """The number of trials and the best one, which are those of the study's own storage."""
    for name in ("get_n_trials", "get_best_trial", "best_trial", "delete_study", "tell"):
        with pytest.raises(AttributeError):
            getattr(Draft(study), name)
