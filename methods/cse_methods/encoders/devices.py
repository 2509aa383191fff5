"""The device that a process works on, and copies to it for which the host does not wait."""

import torch
from torch import Tensor


def default_device() -> torch.device:
    """The GPU of this process, or the CPU where it sees none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def send_tensor(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, without a wait of the host for what a GPU still has to do."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    # Only from pinned memory does the copy wait in the GPU's own queue.
    return tensor.pin_memory().to(device, non_blocking=True)
