"""The vendor's tools beside the compiler, as far as they are installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from evokernel.backends.gpu import ceilings
from evokernel.backends.gpu.devices import Device
from evokernel.core.protocols import OptionalTool

PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/nsight-compute")


def find(name: str) -> str | None:
    """A tool's path: $CUDA_HOME, PATH, then the usual places."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    wanted = [f"{home}/bin/{name}"] if home else []
    wanted += [name, *(f"{place}/{name}" for place in PLACES)]
    found = next((path for one in wanted if (path := shutil.which(one))), None)
    return found or next((str(path) for path in sorted(Path(PLACES[2]).glob(f"*/{name}"), reverse=True)), None)


def sanitizer(device: Device) -> OptionalTool | None:
    """Where there is a GPU: the path of the tool, or what is missing."""
    if not device.name:
        return None
    path = find("compute-sanitizer")
    return OptionalTool("sanitizer", bool(path), path or "compute-sanitizer is not found: it comes with the CUDA toolkit")


def equipment(device: Device, otherwise: str) -> Iterator[OptionalTool]:
    """What `doctor` says; `otherwise` is what is done without a GPU."""
    if not device.name:
        yield OptionalTool("gpu", False, f"{device.why_not}; {otherwise}")
        return
    yield OptionalTool("gpu", True, f"{device.name} ({device.architecture}), driver for CUDA {device.driver}; kernels are timed on it")
    for name, use in (("compute-sanitizer", "memory accesses are not watched"), ("ncu", "profiles are counted bytes and operations")):
        path = find(name)
        yield OptionalTool(name, bool(path), path or f"not found: {use}; it comes with the CUDA toolkit")
    known = ceilings.kept(f"{device.name} {device.driver}")
    if known:
        yield OptionalTool("ceilings", True, f"{known['copy_gbs']:.4g} GB/s copied, {known['bfloat16_tflops']:.3g} TFLOP/s in bfloat16")
