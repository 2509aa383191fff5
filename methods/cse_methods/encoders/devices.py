"""The device that a process uses, its arithmetic, and copies between device and host."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cse_methods.errors import BackboneError, CseError
from cse_methods.precision import Arithmetic


def default_device() -> torch.device:
    """Return the GPU of this process, or the CPU if it sees none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


_AUTOCAST: dict[Arithmetic, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


@contextmanager
def computing_in(arithmetic: Arithmetic, device: torch.device) -> Iterator[None]:
    """Compute matrix products on a device in the given arithmetic while the context is open.

    Half precision uses PyTorch's autocast. Float32 and TF32 are selected by a setting of the whole
    process, which only affects a GPU.
    """
    if dtype := _AUTOCAST.get(arithmetic):
        with torch.autocast(device.type, dtype=dtype):
            yield
    elif device.type != "cuda":
        yield
    else:
        convolution = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # made at import
        kinds = (torch.backends.cuda.matmul, convolution)
        before = [kind.fp32_precision for kind in kinds]
        try:
            for kind in kinds:
                kind.fp32_precision = "tf32" if arithmetic == "tf32" else "ieee"
            yield
        finally:
            for kind, precision in zip(kinds, before, strict=True):
                kind.fp32_precision = precision


@contextmanager
def memory_advice(
    doing: str, way_out: str = "end what else uses this GPU", error: type[CseError] = BackboneError
) -> Iterator[None]:
    """Turn an out-of-memory error of a GPU into advice.

    Args:
        doing: what the memory is for, such as "it encodes 400 sentences".
        way_out: what to do, beside sharing a GPU among fewer trials.
        error: the type of what is raised.

    Raises:
        CseError: says what filled the memory, and what to do.
    """
    try:
        yield
    except torch.OutOfMemoryError as problem:
        reason = str(problem).partition(". ")[0]
        raise error(
            f"the GPU's memory is full while {doing} ({reason}); {way_out}, or let fewer trials "
            "share the GPU, by a larger resources.gpu"
        ) from problem


def send_tensor(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device without making the host wait for the GPU's pending work."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    # Only a copy from pinned memory is queued on the GPU without blocking the host.
    return tensor.pin_memory().to(device, non_blocking=True)


def copy_to_host(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a state of nested dicts and lists with tensors and numbers into the host's memory.

    The host waits only once, until all tensors from a GPU have arrived.
    """
    copied: dict[str, Any] = _copy_tensors(state)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return copied


def _copy_tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        # From a GPU, this copies into pinned memory through the GPU's own queue.
        return value.detach().to("cpu", non_blocking=True, copy=True)
    if isinstance(value, Mapping):
        return {name: _copy_tensors(item) for name, item in value.items()}
    return [_copy_tensors(item) for item in value] if isinstance(value, list) else value


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
