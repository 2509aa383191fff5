"""From a file to a running sweep: check, plan, run, rehearse, submit."""

from pathlib import Path

RUNS = Path("runs")
"""The runs folder unless another one is named."""
