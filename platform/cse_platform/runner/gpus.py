"""The GPUs that a worker sees; it imports nothing of the driver."""

import os

import ray

_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Where PyTorch looks for the options of its allocator: the name of today, and the older one."""


def prepare_gpus() -> None:
    """Hide the GPUs that Ray has not assigned to this process, and let memory segments grow.

    Ray shows a worker that asks for no GPU all those of its node, and methods take one that they
    see. Where segments grow, batches of changing lengths leave no gaps in a GPU's memory that are
    too small for the next one; an allocator option that the environment sets is kept. Call it
    before torch looks for GPUs.
    """
    if not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"
    if ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""
