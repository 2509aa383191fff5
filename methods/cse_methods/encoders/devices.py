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


class HostCopy:
    """A copy of a tensor in the host's memory, for whose making the host does not wait."""

    def __init__(self, tensor: Tensor) -> None:
        self._made = torch.cuda.Event() if tensor.is_cuda else None
        # To memory that PyTorch pins, by the GPU's own queue.
        self._values = tensor.to("cpu", non_blocking=True)
        if self._made is not None:
            self._made.record()

    def has_arrived(self) -> bool:
        """Whether the copy is made, so that `read` does not wait."""
        return self._made is None or self._made.query()

    def read(self) -> list[float]:
        """Return the values, once the copy is made."""
        if self._made is not None:
            self._made.synchronize()
        return [float(value) for value in self._values.tolist()]
