"""A fake torch_npu: says whether there is a card, as `card` in the fake toolkit's folder tells. Tensors stay where they are."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace


class Event:
    """A point in time."""

    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return 1e3 * (other.at - self.at)


def is_available():
    return (Path(os.environ.get("ASCEND_HOME_PATH", "/nonexistent")) / "card").exists()


npu = SimpleNamespace(is_available=is_available, synchronize=lambda: None, Event=Event)
if torch := sys.modules.get("torch"):
    torch.Tensor.npu = torch.nn.Module.npu = lambda self: self
