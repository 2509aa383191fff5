"""Numbers that repeat on a GPU too, as far as PyTorch offers that."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Compute deterministically, if that is wanted, and put back afterwards what was set before.

    PyTorch then takes slower kernels that always sum in one order, attention's backward pass among
    them, and warns of an operation that has none. CPUs compute so anyway.
    """
    if not wanted:
        yield
        return
    # Read when cuBLAS starts; of the two values that repeat it is the faster one.
    os.environ.setdefault(_WORKSPACE, ":4096:8")
    attention: Any = torch.backends.cuda  # whose functions have no types
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        attention.mem_efficient_sdp_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    attention.enable_mem_efficient_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.backends.cudnn.benchmark = before[2]
        attention.enable_mem_efficient_sdp(before[3])
