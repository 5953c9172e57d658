"""Starts the processes of a verification together when it begins, so that they load their libraries while the candidate is built."""

from __future__ import annotations

from evokernel.backends.gpu import ncu, sanitizer_run, timing_client, tool_processes
from evokernel.backends.gpu.devices import Device
from evokernel.backends.gpu.tools import find_sanitizer, find_tool


def start_gpu_processes(device: Device, number: int, with_profiler: bool, with_sanitizer: bool) -> None:
    """Starts the timing server, the sanitizer's tools and the profiler, unless they are running; waits for none of them."""
    timing_client.start_server(number)
    sanitizer = find_sanitizer(device)
    if with_sanitizer and sanitizer.is_available:
        for command in sanitizer_run.list_commands(sanitizer.detail):
            tool_processes.start_early(command, number)
    if with_profiler and (tool := find_tool("ncu")):
        tool_processes.start_early(ncu.make_command(tool), number)
