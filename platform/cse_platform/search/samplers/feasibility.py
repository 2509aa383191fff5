"""Makes an acquisition function keep away from configurations that fail."""

from typing import TYPE_CHECKING

from optuna._gp.acqf import BaseAcquisitionFunc, LogPI

if TYPE_CHECKING:
    import torch


class FeasibleAcquisition(BaseAcquisitionFunc):
    """The logarithm of an acquisition function times the probability that a trial does not fail.

    Improvement counts only if the trial ends, and whether it does is learned from the trials
    (Gelbart et al. 2014, Bayesian optimization with unknown constraints, equation 5).

    Args:
        acquisition: any whose values are logarithms.
        feasibility: the logarithm of the probability.
    """

    def __init__(self, acquisition: BaseAcquisitionFunc, feasibility: LogPI) -> None:
        super().__init__(acquisition.length_scales, acquisition.search_space)
        self._acquisition, self._feasibility = acquisition, feasibility

    def eval_acqf(self, x: "torch.Tensor") -> "torch.Tensor":
        """Evaluate it at normalized configurations of shape (..., dimensions)."""
        return self._acquisition.eval_acqf(x) + self._feasibility.eval_acqf(x)
