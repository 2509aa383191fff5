"""Convert a sweep's dimensions and values to Optuna's, and back."""

from decimal import Decimal
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial

from cse_platform.sweep.space.dimensions import Choices, Dimension, Range
from cse_platform.sweep.values import encode


def build_distribution(dimension: Dimension) -> BaseDistribution:
    """Build the Optuna distribution of a dimension."""
    if isinstance(dimension, Choices):
        return CategoricalDistribution([encode(choice) for choice in dimension.choices])
    return _build_numeric(dimension)


def suggest(trial: Trial, name: str, dimension: Dimension) -> Any:
    """Let Optuna choose a value of the dimension, and return it as the file writes it."""
    if isinstance(dimension, Choices):
        choices = [encode(choice) for choice in dimension.choices]
        return decode(dimension, trial.suggest_categorical(name, choices))
    asked = _build_numeric(dimension)
    if isinstance(asked, IntDistribution):
        return trial.suggest_int(name, asked.low, asked.high, step=asked.step, log=asked.log)
    drawn = trial.suggest_float(name, asked.low, asked.high, step=asked.step, log=asked.log)
    return decode(dimension, drawn)


def decode(dimension: Dimension, value: Any) -> Any:
    """Decode a value that Optuna returns or has stored to the form in the file."""
    if isinstance(dimension, Choices):
        return next((choice for choice in dimension.choices if encode(choice) == value), value)
    if dimension.whole:
        return int(value)
    number = float(value)  # some samplers return a NumPy scalar
    if dimension.step is None:
        return number
    # As the file would write it: 0.3, not Optuna's 0.1 + 2 * 0.1.
    start, distance = Decimal(str(dimension.low)), Decimal(str(dimension.step))
    return float(start + distance * round((Decimal(str(number)) - start) / distance))


def _build_numeric(dimension: Range) -> IntDistribution | FloatDistribution:
    low, high, step, log = dimension.low, dimension.high, dimension.step, dimension.log
    if dimension.whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(low, high, log=log, step=step)
