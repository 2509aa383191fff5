"""Prepare the GPUs that a worker sees; this module imports nothing of the driver."""

import os

import ray

_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""The variables that hold the options of PyTorch's allocator: the current name, and the older."""


def prepare_gpus() -> None:
    """Hide GPUs that Ray has not assigned to this process, and enable expandable memory segments.

    Ray shows all GPUs of the node to a worker that asked for none, and a method uses any GPU that
    it sees. Expandable segments keep batches of varying length from fragmenting the GPU's memory;
    an allocator option that the environment already sets is kept. Call this before torch looks for
    GPUs.
    """
    if not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"
    if ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""
