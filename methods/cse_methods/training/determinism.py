"""Reproducible numbers on a GPU, as far as PyTorch offers that."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Compute deterministically if wanted, and restore the previous settings afterwards.

    PyTorch then uses slower kernels that sum in a fixed order, also in attention's backward pass,
    and warns of operations without such a kernel. CPUs are deterministic anyway.
    """
    if not wanted:
        yield
        return
    # Read when cuBLAS starts; of the two deterministic values, this is the faster one.
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
