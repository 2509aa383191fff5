"""The GPUs that a worker sees; it imports nothing of the driver."""

import os

import ray


def hide_unassigned_gpus() -> None:
    """Hide every GPU from this process, unless Ray has assigned it one.

    Ray shows a worker that asks for no GPU all those of its node, and methods take one that they
    see. Call it before torch looks for GPUs.
    """
    if ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""
