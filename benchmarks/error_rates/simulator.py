"""Run simulations in processes, and format their means in tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import chain
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cell = TypeVar("Cell")
Simulate = Callable[..., Sequence[float]]
"""Simulates once, with a random generator and the keyword arguments of a case; returns its
outcomes, of which the means are wanted.
"""
BLOCKS = 8
"""Blocks that the simulations of a case are split into, each with a seed of its own."""


class Simulator:
    """Runs a share of the simulations of each case in the processes of a pool."""

    def __init__(self, pool: Executor, share: float) -> None:
        self._pool, self._share = pool, share

    def run(
        self, simulate: Simulate, cases: Sequence[Mapping[str, Any]], simulations: int
    ) -> list[Floats]:
        """Simulate each case so often. Returns outcomes of shape (simulations, outcomes) by case.

        Equal arguments give equal outcomes, whatever the number of processes.
        """
        size = max(1, round(simulations * self._share / BLOCKS))
        name = crc32(simulate.__name__.encode())
        waiting = [
            [
                self._pool.submit(_simulate_block, simulate, case, size, [name, number, block])
                for block in range(BLOCKS)
            ]
            for number, case in enumerate(cases)
        ]
        return [np.concatenate([block.result() for block in blocks]) for blocks in waiting]

    def format_table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], simulations: int
    ) -> str:
        """Format a table in Markdown, all columns but the first aligned to the right.

        The errors that `format_mean` put beside the means go below the table: the largest of the
        means with the same number of decimals.
        """
        errors: dict[int, str] = {}
        for error in re.findall(r" ± ([\d.]+)", " ".join(chain.from_iterable(rows))):
            digits = len(error.partition(".")[2])
            errors[digits] = max(error, errors.get(digits, ""), key=lambda one: float(one or 0))
        first, *others = (f"| {' | '.join(line)} |\n" for line in [head, *rows])
        table = "".join([first, "|---", "|---:" * (len(head) - 1), "|\n", *others])
        done = BLOCKS * max(1, round(simulations * self._share / BLOCKS))
        most = " and ".join(f"± {errors[digits]}" for digits in sorted(errors))
        return (
            re.sub(r" ± [\d.]+", "", table)
            + f"\n{done:,} simulations each; error at most {most}.\n"
        )


def _simulate_block(
    simulate: Simulate, case: Mapping[str, Any], size: int, seed: Sequence[int]
) -> Floats:
    rng = np.random.default_rng(seed)
    return np.array([simulate(rng, **case) for _ in range(size)], dtype=np.float64)


def format_mean(outcomes: Floats, *, digits: int = 1, scale: float = 100) -> str:
    """Format the mean of outcomes, shape (simulations,), with its error: by default in percent."""
    error = 1.96 * float(outcomes.std()) / np.sqrt(len(outcomes))
    mean = f"{scale * outcomes.mean():z.{digits}f}"
    return f"{mean} ± {scale * error:.{digits}f}" if error else mean


def fold(cells: Sequence[Cell], columns: int) -> list[Sequence[Cell]]:
    """Fold what is in the order of a table's cells into its rows."""
    return [cells[start : start + columns] for start in range(0, len(cells), columns)]
