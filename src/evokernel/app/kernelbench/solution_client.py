"""Starts the process of a solution in the sandbox, waits for it within limits, and reads what it claims."""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import evokernel
from evokernel.backends.cuda.build import find_nvcc, toolkit_folder
from evokernel.core.devices import hold_device, physical_device
from evokernel.core.errors import InfraError
from evokernel.sandbox import exec_compiler, isolated_python, profiles
from evokernel.sandbox.allowed_paths import LIST, MODIFY, READ, RUN, is_package_folder
from evokernel.sandbox.profiles import SandboxPlan

log = logging.getLogger(__name__)
MODULE = "evokernel.app.kernelbench.solution_process"
ORDER, RESULT, SOLUTION_FILE, READY, GO = "order.json", "result.json", "solution.py", "ready to time", "go"
FORWARDED = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CXX", "CC", "TRITON_PTXAS_PATH")
VISIBLE = "CUDA_VISIBLE_DEVICES"
MOVE = 1 << 13
"""Landlock's right to move a file between folders, which Triton's cache needs."""
DEVICE_FILES = "nvidia*"
DRIVER_FOLDERS = ("/proc", "/sys", "/etc")
"""What NVIDIA's driver reads when it starts."""
CPU_MEMORY_BYTES, FILE_BYTES = 16 << 30, 8 << 30
NO_DEVICE = 3
WEAKER = ((), ("seccomp",), ("landlock",), ("seccomp", "landlock"))
"""Layers to leave out if the driver does not start with all of them, in the order in which they are tried."""
MAX_RESULT_BYTES = 4 << 20
PROBE_S = 120.0
START_S = 30.0


ACTIVE: set[subprocess.Popen[bytes]] = set()
"""Processes that run now."""


class SolutionSandbox(NamedTuple):
    """How processes of solutions are confined on this machine, and where they run."""

    device: str
    """`cpu` or `cuda:0`."""
    missing_layers: tuple[str, ...] = ()
    """Layers that the driver does not start with."""
    problem: str = ""
    """Why the device cannot be used; empty if it can."""


class SolutionReply(NamedTuple):
    """What a solution's process claims, and how it ended."""

    claim: dict[str, Any]
    failure: str = ""
    """Why there is no complete claim: a time-out, a crash; empty if it ended in order."""
    seconds: float = 0.0


@lru_cache
def choose_sandbox(number: int) -> SolutionSandbox:
    """Find the strongest sandbox in which the device works; `number` below 0 means the processor."""
    if number < 0:
        return SolutionSandbox("cpu")
    device, problems = f"cuda:{number}", []
    for missing in WEAKER:
        with tempfile.TemporaryDirectory(prefix="evokernel-probe-") as name:
            reply = run_solution({"mode": "probe"}, "", Path(name), SolutionSandbox(device, missing), PROBE_S)
        if not reply.failure:
            return SolutionSandbox(device, missing)
        problems.append(reply.failure)
    return SolutionSandbox(device, problem=problems[-1])


def make_sandbox_plan(sandbox: SolutionSandbox, workdir: Path, timeout_s: float) -> SandboxPlan:
    """Plan for a process that loads a solution, starts compilers, and may use a device: it can write to one folder."""
    is_device = sandbox.device != "cpu"
    limits = {"RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_CPU": int(timeout_s * (os.cpu_count() or 1)) + 60}
    limits |= {} if is_device else {"RLIMIT_AS": CPU_MEMORY_BYTES}
    nvcc = find_nvcc("")
    packages = [path for path in map(os.path.abspath, sys.path) if is_package_folder(path)]
    own_folder = str(Path(str(evokernel.__file__)).parent.parent)
    toolkit = [str(toolkit_folder(nvcc))] if nvcc else []
    readable = [*(DRIVER_FOLDERS if is_device else ()), *toolkit, *packages, own_folder, sys.prefix, sys.base_prefix]
    rules = [(str(workdir), MODIFY | RUN | MOVE), *((path, READ | LIST | RUN) for path in readable)]
    devices = [str(path) for path in sorted(Path("/dev").glob(DEVICE_FILES))] if is_device else []
    plan = profiles.plan_toolkit("toolkit", sys.executable, rules, devices, limits)
    return {layer: value for layer, value in plan.items() if layer not in sandbox.missing_layers}


def make_environment(sandbox: SolutionSandbox, workdir: Path) -> dict[str, str]:
    """Variables of a solution's process: compilers and their caches write to its own folder."""
    folders = {"HOME": "", "TMPDIR": "tmp", "TORCH_EXTENSIONS_DIR": "extensions", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}
    for name in folders.values():
        (workdir / name).mkdir(exist_ok=True)
    forwarded = {name: os.environ[name] for name in FORWARDED if name in os.environ}
    tools = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), forwarded.pop("PATH", os.defpath)]), "LC_ALL": "C"}
    device = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""} if sandbox.device == "cpu" else {"TORCH_USE_CUDA_DSA": "1"}
    return forwarded | tools | {name: str(workdir / folder) for name, folder in folders.items()} | device


def run_solution(order: dict[str, Any], text: str, workdir: Path, sandbox: SolutionSandbox, timeout_s: float) -> SolutionReply:
    """Run one order in a process of its own and return what it claims. Raises InfraError if the process cannot be started."""
    started_at = time.monotonic()
    (workdir / SOLUTION_FILE).write_text(text, encoding="utf-8")
    (workdir / ORDER).write_text(json.dumps(order | {"device": sandbox.device}))
    command = isolated_python.isolated_command(MODULE, "main", str(workdir))
    plan = make_sandbox_plan(sandbox, workdir, timeout_s)
    with (workdir / "stderr.txt").open("wb") as errors:
        try:
            process = subprocess.Popen(
                exec_compiler.make_sandboxed_command(plan, command, os.getpid()),
                cwd=workdir,
                env=make_environment(sandbox, workdir),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                process_group=0,
            )
        except OSError as error:
            raise InfraError(f"cannot start the process of a solution: {error}") from error
    ACTIVE.add(process)
    try:
        failure = wait_for_end(process, sandbox, started_at + timeout_s)
    finally:
        ACTIVE.discard(process)
        end_group(process)
    if process.returncode == exec_compiler.SANDBOX_FAILED:
        raise InfraError(read_end(workdir / "stderr.txt"))
    if not failure and process.returncode:
        failure = describe_exit(process.returncode, read_end(workdir / "stderr.txt"))
    return SolutionReply(read_claim(workdir / RESULT), failure, time.monotonic() - started_at)


def wait_for_end(process: subprocess.Popen[bytes], sandbox: SolutionSandbox, deadline: float) -> str:
    """Wait until the process ends; while it times, hold the device. Return the failure if it takes too long."""
    assert process.stdin
    assert process.stdout
    with hold_timed_device(sandbox) as hold:
        buffer = b""
        while True:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return "timeout: it did not finish in time"
            if not select.select([process.stdout], [], [], min(remaining_s, 1.0))[0]:
                if process.poll() is not None:
                    return ""
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            buffer = (buffer + chunk)[-(1 << 16) :]
            if READY.encode() in buffer:
                buffer = b""
                waited_from = time.monotonic()
                hold()
                deadline += time.monotonic() - waited_from
                try:
                    process.stdin.write(f"{GO}\n".encode())
                    process.stdin.flush()
                except OSError:
                    break
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timeout: it did not finish in time"
    return ""


@contextmanager
def hold_timed_device(sandbox: SolutionSandbox) -> Iterator[Any]:
    """Yield a function that locks the device against other measurements of this machine until the block ends."""
    held: list[Any] = []

    def hold() -> None:
        if not held and sandbox.device != "cpu":
            lock = hold_device(f"gpu{physical_device(int(sandbox.device.partition(':')[2]), VISIBLE)}")
            lock.__enter__()
            held.append(lock)

    try:
        yield hold
    finally:
        for lock in held:
            lock.__exit__(None, None, None)


def end_active() -> None:
    """Kill all processes that run now, so that an interrupted command ends at once; the threads that wait for them then end."""
    for process in list(ACTIVE):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with everything that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # unsent data has no reader any more
            assert pipe
            pipe.close()


def read_claim(path: Path) -> dict[str, Any]:
    """Read the result of an untrusted process; anything malformed is no claim."""
    try:
        if path.is_symlink() or path.stat().st_size > MAX_RESULT_BYTES:
            return {}
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_end(path: Path) -> str:
    """Return the last line that a process wrote to stderr."""
    try:
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1].strip()[-400:] if lines else ""


def describe_exit(code: int, last_line: str) -> str:
    """Why a process ended: a signal or an exit code, with the last line that it wrote."""
    said = f": {last_line}" if last_line else ""
    if code == NO_DEVICE:
        return f"the device cannot be used{said}"
    return f"crash: signal {signal.Signals(-code).name}{said}" if code < 0 else f"crash: exit code {code}{said}"


@contextmanager
def solution_folder() -> Iterator[Path]:
    """A temporary folder for one process; removed afterwards, whatever the process left in it."""
    folder = Path(tempfile.mkdtemp(prefix="evokernel-solution-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
