"""Finds NVIDIA's tools other than the compiler."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from evokernel.backends.gpu import ceilings
from evokernel.backends.gpu.devices import Device
from evokernel.core.backend import OptionalTool

TOOL_FOLDERS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/nsight-compute")


def find_tool(name: str) -> str | None:
    """Finds a tool in $CUDA_HOME, on PATH, then in the usual folders."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    candidates = [f"{home}/bin/{name}"] if home else []
    candidates += [name, *(f"{place}/{name}" for place in TOOL_FOLDERS)]
    path = next((found_path for one in candidates if (found_path := shutil.which(one))), None)
    return path or next((str(path) for path in sorted(Path(TOOL_FOLDERS[2]).glob(f"*/{name}"), reverse=True)), None)


def find_sanitizer(device: Device) -> OptionalTool:
    """Finds compute-sanitizer, which needs a GPU."""
    if not device.name:
        return OptionalTool("sanitizer", False, device.unavailable_reason)
    path = find_tool("compute-sanitizer")
    return OptionalTool("sanitizer", bool(path), path or "compute-sanitizer was not found; install the CUDA toolkit")


def list_tools(device: Device, fallback: str) -> Iterator[OptionalTool]:
    """Yields the entries of `doctor`; `fallback` describes the mode without a GPU."""
    if not device.name:
        yield OptionalTool("gpu", False, f"{device.unavailable_reason}; {fallback}")
        return
    yield OptionalTool("gpu", True, f"{device.name} ({device.architecture}), driver for CUDA {device.driver}; kernels are timed on it")
    for name, use in (
        ("compute-sanitizer", "invalid memory accesses may go unnoticed"),
        ("ncu", "profiles use counted bytes and operations only"),
    ):
        path = find_tool(name)
        yield OptionalTool(name, bool(path), path or f"not found, so {use}; install the CUDA toolkit")
    device_ceilings = ceilings.load_ceilings(f"{device.name} {device.driver}")
    if device_ceilings:
        yield OptionalTool(
            "ceilings", True, f"{device_ceilings['copy_gbs']:.4g} GB/s copied, {device_ceilings['bfloat16_tflops']:.3g} TFLOP/s in bfloat16"
        )
