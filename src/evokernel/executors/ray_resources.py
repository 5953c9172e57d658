"""The names of the Ray resources that nodes offer, and the command that starts a node."""

from __future__ import annotations

import json
from collections.abc import Mapping

ACCELERATORS = ("GPU", "NPU", "TPU")
"""Ray's own device resources: Ray assigns each device to one job at a time and hides the others from it."""


def backend_resource(name: str) -> str:
    """Return the resource that counts how many candidates of a backend a node can verify at a time."""
    return f"evokernel-backend-{name}"


def device_resource(name: str) -> str:
    """Return the resource that counts the devices of a node for timing."""
    return f"evokernel-device-{name}"


def make_start_command(cores: int, labels: Mapping[str, int], accelerators: Mapping[str, int]) -> str:
    """Return the command that adds this machine to the cluster at HEAD."""
    gpus = f" --num-gpus {accelerators['GPU']}" if accelerators.get("GPU") else ""
    others = {name: count for name, count in accelerators.items() if name != "GPU"}
    return f"ray start --address HEAD:6379 --num-cpus {cores}{gpus} --resources '{json.dumps({**labels, **others})}'"
