"""What the nodes of a cluster offer, as names of Ray's resources, and how a node is started that offers it."""

from __future__ import annotations

import json
from collections.abc import Mapping

ACCELERATORS = ("GPU", "NPU", "TPU")
"""What Ray calls devices itself: it hands out each to one job at a time and shows a job no other."""


def backend(name: str) -> str:
    """How many candidates of a backend a node can judge at a time."""
    return f"evokernel-backend-{name}"


def device(name: str) -> str:
    """How many devices it has to time them on."""
    return f"evokernel-device-{name}"


def start_command(cores: int, labels: Mapping[str, int], accelerators: Mapping[str, int]) -> str:
    """What makes this machine a node of the cluster at HEAD."""
    gpus = f" --num-gpus {accelerators['GPU']}" if accelerators.get("GPU") else ""
    others = {name: count for name, count in accelerators.items() if name != "GPU"}
    return f"ray start --address HEAD:6379 --num-cpus {cores}{gpus} --resources '{json.dumps({**labels, **others})}'"
