"""The precisions of computing. `auto` is bf16 where there are units for it, else fp32."""

from pathlib import Path
from typing import Literal

Precision = Literal["fp32", "bf16", "fp16"]
Arithmetic = Literal["fp32", "tf32", "bf16", "fp16"]
"""What products of matrices are computed in. In TF32 a GPU's factors keep ten of float32's 23 bits
of fraction, and sums are float32; on a CPU it is fp32."""
_CPU_INFO = Path("/proc/cpuinfo")
_UNITS = {"amx_bf16", "avx512_bf16", "bf16"}
"""The flags of processors that multiply bfloat16 themselves: those of x86, then that of Arm."""


def auto_precision(*, gpu: bool | None = None) -> Literal["bf16", "fp32"]:
    """Choose the faster of the two precisions that need no scaling of the loss.

    A GPU that this machine does not have, as of a cluster's nodes, counts as one with units; all
    since NVIDIA's Ampere have them. Where a system does not say what its processor has, it counts
    as one without.

    Args:
        gpu: whether trials run on a GPU; None looks whether this process sees one.
    """
    if gpu is not False:
        import torch  # takes seconds, and a sweep on CPUs needs none of it

        if torch.cuda.is_available():
            return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
        if gpu:
            return "bf16"
    try:
        lines = _CPU_INFO.read_text("utf-8").splitlines()
    except OSError:
        return "fp32"
    # The kernel's flags of what the first processor can do.
    named = (line.partition(":") for line in lines)
    flags = (words for name, _, words in named if name.strip() in ("flags", "Features"))
    return "bf16" if _UNITS & set(next(flags, "").split()) else "fp32"
