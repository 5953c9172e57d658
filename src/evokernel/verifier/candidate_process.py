"""The verifier's side of the candidate process: starts it, exchanges commands and replies, and classifies how it ended."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import NamedTuple

from evokernel.core.backend import Backend, CallShape, DeviceAccess
from evokernel.core.cpu_time import ClockReading, ProcessClock
from evokernel.core.devices import DEVICE_VARIABLE
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.records import Job, Settings
from evokernel.sandbox import isolated_python, profiles
from evokernel.sandbox.profiles import SandboxPlan
from evokernel.verifier.candidate_main import InputChange
from evokernel.verifier.exit_errors import make_exit_error
from evokernel.verifier.reasons import REASONS, sanitize_text
from evokernel.verifier.scratch_dir import WRITE_RULE, check_disk_quota, check_regular_files, remove_folder
from evokernel.verifier.shared_buffers import Arena, BufferSlot
from evokernel.verifier.zygote import ForkedProcess, Zygote

START_TIMEOUT_S, EXIT_TIMEOUT_S, DISK_POLL_S = 60.0, 5.0, 0.05
MAX_REPLY_BYTES, MAX_LOCATE_BYTES = 16 << 10, 1 << 20
RUNTIME_THREADS = 8
MIN_WAIT_S = 0.05
"""The least time until the time limit is looked at again."""
SIMULATED_RUNS = {"run": "whole runs", "locate_parts": "finding what parts at the timed size write", "run_parts": "running these parts"}
OTHER_STEPS = {"load": "loading", "bind": "binding", "trace": "tracing", "inspect": "inspecting the trace", "lower": "lowering"}
"""Commands by the words with which a timeout says where the time went."""
INHERITED_VARIABLES = ("PATH", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", DEVICE_VARIABLE)
QUERY_PERSONALITY, ADDR_NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000
CHANNEL_MISUSE = f"the kernel wrote into the verifier's reply channel: {WRITE_RULE}"


class CommandTiming(NamedTuple):
    """The cost of one command on the verifier's clocks."""

    wall_s: float
    cpu_s: float | None
    """CPU time charged to the candidate process; None if the system does not report it."""
    self_reported_s: tuple[float, float] = (0.0, 0.0)
    """CPU and wall time as the candidate process reports them. The verifier never uses them as timings, only to cross-check its own clocks.
    """
    reply: str = ""
    """What else the reply says."""


class CandidateProcess:
    """A process that runs one candidate. The verifier waits for its replies and does not trust them."""

    def __init__(
        self,
        job: Job,
        backend: Backend,
        workdir: Path,
        arena: Arena,
        threads: int,
        memory_bytes: int,
        file_bytes: int = 1 << 20,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`memory_bytes` 0 leaves the address space unlimited; `variables` are added to the environment."""
        self.is_traced = backend.capabilities.tracing != "no"
        self.is_simulated = backend.capabilities.is_simulated
        self.timeout_s = job.simulation_timeout_s if self.is_simulated else job.timeout_s
        self.limit_name = "timeout_s" if self.timeout_s == job.timeout_s else "timeout_s, doubled at the size full"
        self.arena, self.workdir, self.remaining_s = arena, workdir, self.timeout_s
        self.disk_bytes, self.is_disk_polled = 2 * file_bytes, False
        self.used_s: dict[str, float] = {}
        """How much of the time limit each command has used."""
        self.do_parts_wait = False
        """Whether the process said that parts of the kernel wait for each other."""
        self.reply_fd, write_end = os.pipe()
        self.reply_buffer, self.max_reply_bytes = b"", MAX_REPLY_BYTES
        self.scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=workdir))
        self.stderr_file = self.scratch.with_suffix(".err").open("w+b")
        descriptors = (write_end, arena.inputs.descriptor, arena.outputs.descriptor)
        access = backend.device_access(workdir)
        self.can_report_infra = not backend.has_candidate_code(workdir)
        sandbox = self.make_sandbox_plan(backend, threads, memory_bytes, file_bytes, bool(variables), access)
        try:
            self.process = self.start_process(
                job, backend, descriptors, threads, dict(variables or {}) | (access.variables if access else {})
            )
        except (OSError, InfraError) as error:
            os.close(self.reply_fd)
            self.stderr_file.close()
            raise InfraError(f"the candidate process cannot be started: {error}") from error
        finally:
            os.close(write_end)
        self.clock = ProcessClock(self.process.pid, reads_queue=self.is_simulated)
        setup = {
            "verifier_pid": os.getpid(),
            "reply_fd": write_end,
            "inputs_fd": descriptors[1],
            "outputs_fd": descriptors[2],
            "backend": f"{type(backend).__module__}:{type(backend).__qualname__}",
            "settings": job.settings,
            "workdir": str(workdir),
            "sandbox": sandbox,
        }
        self.send_line(json.dumps(setup))

    def make_sandbox_plan(
        self, backend: Backend, threads: int, memory_bytes: int, file_bytes: int, is_sanitized: bool, access: DeviceAccess | None = None
    ) -> SandboxPlan:
        """Choose the sandbox: compiled kernels can write no file; processes that trace, interpret, sanitize or use a device get one scratch
        folder."""
        limits = {"RLIMIT_FSIZE": file_bytes, "RLIMIT_CPU": int(self.timeout_s * threads) + 30}
        readable = [str(self.workdir)]
        if access:
            self.is_disk_polled = True  # the device runtime writes logs and waits for the device in its own threads
            limits["RLIMIT_CPU"] = int(self.timeout_s * RUNTIME_THREADS) + 30
            if not access.holds_candidate:
                return profiles.plan_driver(limits)
            # Without a memory limit: device runtimes reserve terabytes.
            return profiles.plan_device_kernel(backend, [*readable, *access.readable], str(self.scratch), access.devices, limits)
        if self.is_traced or is_sanitized:
            plan = profiles.plan_interpreter(backend, readable, str(self.scratch), limits)
        else:
            plan = profiles.plan_kernel(backend, readable, threads, limits if threads > 1 else limits | {"RLIMIT_NPROC": 0})
        return plan | {"extra_memory_bytes": memory_bytes} if memory_bytes and "limits" in plan else plan

    def start_process(
        self, job: Job, backend: Backend, descriptors: tuple[int, int, int], threads: int, extra_variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        """Fork a zygote that has the backend's libraries loaded, if candidates are traced; otherwise start a new process."""
        variables = make_environment(threads, self.scratch) | dict(extra_variables) | dict(backend.environment)
        if forks_zygote(backend):
            return ForkedProcess(get_zygote(backend, job.settings), self.stderr_file, descriptors, self.scratch, variables)
        disable_address_randomization()
        return subprocess.Popen(
            isolated_python.isolated_command("evokernel.verifier.candidate_main", "main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.stderr_file,
            cwd=self.scratch,
            env=variables,
            pass_fds=descriptors,
            process_group=0,
        )

    def wait_ready(self) -> None:
        """Wait until the process is ready. A failure before that is never the candidate's fault."""
        try:
            line = self.read_line(time.monotonic() + START_TIMEOUT_S)
        except TimeoutError:
            line = None
        if line != b"ready":
            self.stop()
            raise InfraError(
                f"the candidate process did not start (exit code {self.process.returncode}): "
                f"{self.stderr_tail()[-600:] or 'stderr is empty'}"
            )

    def load(self) -> None:
        """Load the candidate's kernel."""
        self.send_command("load", "")

    def prepare(self, step: str, source: Path, calls: dict[str, CallShape], target: Path) -> None:
        """Run a preparation step of the backend (trace, inspect or lower) and move the files it writes to `target`."""
        step_folder = self.scratch / step
        step_folder.mkdir()
        self.is_disk_polled = True
        self.send_command(step, json.dumps([str(source), calls, str(step_folder)]))
        if target.exists():
            raise CandidateError("forbidden", f"the kernel wrote into the verifier's folder: {WRITE_RULE}")
        try:
            check_disk_quota(self.scratch, self.disk_bytes)
            check_regular_files(step_folder)
            step_folder.rename(target)
        except OSError as error:  # the candidate may also have moved or removed the folder
            raise CandidateError(
                "forbidden",
                f"the kernel changed the folder of its traced programs ({error.strerror}): {WRITE_RULE}",
            ) from error

    def bind(self, slot: BufferSlot, scalars: tuple[tuple[str, str, float], ...], in_parts: bool = False) -> None:
        """Make a slot callable, whole or in parts. Bind slots in the order of their slot ids."""
        spec = {"spans": [slot.input_span, slot.output_span], "inputs": slot.inputs, "scalars": scalars, "outputs": slot.outputs}
        self.send_command("bind", json.dumps(spec | {"in_parts": in_parts}))

    def locate_parts(self, slot: BufferSlot, positions: Sequence[float]) -> list[list[tuple[int, int]]]:
        """Return for each output the ranges of flat indices that the parts at these positions write, as the process reports them."""
        self.max_reply_bytes = MAX_LOCATE_BYTES
        try:
            text = self.send_command("locate_parts", json.dumps([slot.slot_id, list(positions)])).reply
        finally:
            self.max_reply_bytes = MAX_REPLY_BYTES
        try:
            reply = json.loads(text)
            ranges = [[(int(start), int(stop)) for start, stop in one] for one in reply["ranges"]]
            self.do_parts_wait = bool(reply["do_wait"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CandidateError("forbidden", CHANNEL_MISUSE) from error
        for layout, one in zip(slot.outputs, ranges):
            edges = [edge for pair in one for edge in pair]
            if (
                edges != sorted(edges)
                or any(start == stop for start, stop in one)
                or (edges and not 0 <= edges[0] < edges[-1] <= prod(layout.shape))
            ):
                raise CandidateError("forbidden", CHANNEL_MISUSE)
        if len(ranges) != len(slot.outputs):
            raise CandidateError("forbidden", CHANNEL_MISUSE)
        return ranges

    def run_parts(self, slot: BufferSlot, positions: Sequence[float]) -> None:
        """Run the parts of a kernel at these positions."""
        self.send_command("run_parts", json.dumps([slot.slot_id, list(positions)]))

    def run(self, slot: BufferSlot, calls: int = 1, changes: Sequence[InputChange] = ()) -> CommandTiming:
        """Run the kernel on a poisoned slot. Several calls spoil outputs and change inputs in between; zero calls measure the cost of a
        command."""
        marks = self.arena.choose_marks(slot)
        return self.send_command("run", json.dumps([slot.slot_id, marks, changes, calls if marks else min(calls, 1)]))

    def read_cpu_s(self) -> float | None:
        """Return the CPU time charged to the process so far, or None if the system does not report it."""
        return self.clock.read().cpu_s

    def send_command(self, name: str, payload: str) -> CommandTiming:
        """Send one command and wait for its reply within the time that the job has left."""
        self.assert_idle()
        nonce = secrets.token_hex(8)
        start = self.clock.read()
        self.send_line(f"{name} {nonce} {payload}")
        try:
            line = self.read_reply(start)
        except TimeoutError as error:
            self.charge(name, start)
            self.stop()
            raise CandidateError("timeout", self.describe_timeout(name)) from error
        end = self.clock.read()
        self.charge(name, start)
        if line is None:
            self.raise_for_exit()
        assert line is not None
        *self_reported_s, reply = self.parse_reply(line, nonce)
        cpu_s = end.cpu_s - start.cpu_s if start.cpu_s is not None and end.cpu_s is not None else None
        return CommandTiming(end.wall_s - start.wall_s, cpu_s, (self_reported_s[0], self_reported_s[1]), reply)

    def charge(self, name: str, start: ClockReading) -> None:
        """Take what a command has used from the time limit."""
        seconds = self.charge_time(start)
        self.used_s[name] = self.used_s.get(name, 0.0) + seconds
        self.remaining_s -= seconds

    def describe_timeout(self, command: str) -> str:
        """Say that the time is used up. The limit holds for all calls of a candidate together, and in simulation for CPU time."""
        if self.is_simulated:
            steps = OTHER_STEPS | SIMULATED_RUNS
            parts = ", ".join(f"{self.used_s[name]:.0f} s {words}" for name, words in steps.items() if self.used_s.get(name, 0.0) >= 0.5)
            advice = ", or use fewer and larger calls" if command in SIMULATED_RUNS else ""
            return (
                f"the kernel took more than {self.timeout_s:g} s of CPU time in simulation ({self.limit_name})"
                f"{': ' if parts else ''}{parts}; "
                f"the time ended in {steps.get(command, command)}. Fix a loop that does not end{advice}"
            )
        return f"the kernel did not finish within {self.timeout_s:g} s: reduce the work per call, or fix a loop that does not end"

    def read_reply(self, start: ClockReading) -> bytes | None:
        """Return the next reply line. Raises TimeoutError when the command has used up the time that the job has left."""
        wait_s = self.remaining_s
        while True:
            try:
                return self.read_line(time.monotonic() + wait_s)
            except TimeoutError:
                wait_s = self.remaining_s - self.charge_time(start)
                if wait_s <= 0:
                    raise
                wait_s = max(wait_s, MIN_WAIT_S)

    def charge_time(self, start: ClockReading) -> float:
        """Return how much of the time limit a command has used: wall time; in simulation CPU time, because a busy machine must not fail
        a slow simulation."""
        return self.clock.charge_since(start) if self.is_simulated else time.monotonic() - start.wall_s

    def parse_reply(self, line: bytes, nonce: str) -> tuple[float, float, str]:
        """Return the times and the text in a reply to this command, or raise the failure it reports. Any other text was written by the
        candidate."""
        word, _, rest = line.decode(errors="replace").partition(" ")
        reply_nonce, _, text = rest.partition(" ")
        if reply_nonce != nonce or word not in ("done", "failed", "infra"):
            raise CandidateError("forbidden", CHANNEL_MISUSE)
        try:
            if word == "done":
                cpu_s, wall_s, *more = text.split(" ")
                return float(cpu_s), float(wall_s), " ".join(more)
            content = json.loads(text)
            if word == "infra" and self.can_report_infra:
                raise InfraError(sanitize_text(str(content)))
            if word == "infra":
                raise CandidateError(
                    "killed",
                    f"the candidate process reported a machine failure, which the verifier does not accept from candidate code: {content}",
                )
            reason, detail = (str(part) for part in content)
        except (ValueError, TypeError, RecursionError) as error:  # a candidate may have written anything
            raise CandidateError("forbidden", CHANNEL_MISUSE) from error
        raise CandidateError(reason if reason in REASONS else "raised", detail)

    def assert_idle(self) -> None:
        """Raise if the process sent anything between two commands."""
        if self.reply_buffer or select.select([self.reply_fd], [], [], 0)[0]:
            if not self.reply_buffer and self.process.poll() is not None:
                self.raise_for_exit()
            chunk = os.read(self.reply_fd, 1) if not self.reply_buffer else self.reply_buffer
            if not chunk:
                self.raise_for_exit()
            raise CandidateError("forbidden", CHANNEL_MISUSE)

    def send_line(self, line: str) -> None:
        """Write one line to the stdin of the process."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # the process is dead; raise_for_exit reports how it died

    def read_line(self, deadline: float) -> bytes | None:
        """Return the next reply line, or None if the stream ended or the line is too long for a reply."""
        while b"\n" not in self.reply_buffer:
            if len(self.reply_buffer) > self.max_reply_bytes:
                return None
            remaining_s = max(0.0, deadline - time.monotonic())
            if not select.select([self.reply_fd], [], [], min(remaining_s, DISK_POLL_S) if self.is_disk_polled else remaining_s)[0]:
                if not self.is_disk_polled or remaining_s <= DISK_POLL_S:
                    raise TimeoutError
                check_disk_quota(self.scratch, self.disk_bytes)
                continue
            chunk = os.read(self.reply_fd, 4096)
            if not chunk:
                return None
            self.reply_buffer += chunk
        line, _, self.reply_buffer = self.reply_buffer.partition(b"\n")
        return line

    def raise_for_exit(self) -> None:
        """Raise the failure that explains why the process stopped replying."""
        if len(self.reply_buffer) > self.max_reply_bytes:
            raise CandidateError(
                "forbidden",
                f"the kernel wrote more than {MAX_REPLY_BYTES >> 10} KiB into the verifier's reply channel: {WRITE_RULE}",
            )
        try:
            exit_code = self.process.wait(EXIT_TIMEOUT_S)  # the pipe closes shortly before the process exits
        except subprocess.TimeoutExpired:
            self.stop()
            raise CandidateError(
                "forbidden", "the kernel closed the verifier's reply channel: a kernel must not close or reuse file descriptors"
            ) from None
        self.stop()
        stderr_text = sanitize_text(self.stderr_tail()[-400:]).strip()
        raise make_exit_error(exit_code, stderr_text)

    def read_stderr(self, limit: int = 64 << 10, offset: int = 0) -> str:
        """Return the text that the process wrote to stderr, from a byte offset on."""
        return os.pread(self.stderr_file.fileno(), limit, offset).decode(errors="replace")

    def stderr_size(self) -> int:
        """Return the number of bytes that the process has written to stderr."""
        return os.fstat(self.stderr_file.fileno()).st_size

    def stderr_tail(self) -> str:
        """Return the end of the text that the process wrote to stderr."""
        size = self.stderr_file.seek(0, os.SEEK_END)
        self.stderr_file.seek(max(0, size - 4096))
        return self.stderr_file.read().decode(errors="replace")

    def stop(self) -> None:
        """Kill the process and its process group, and wait until all of them have ended."""
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.poll()
                time.sleep(0.001)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Stop the process and release its descriptors and its scratch folder."""
        self.stop()
        if self.process.stdin:
            with suppress(BrokenPipeError):  # the process died before it read the last command
                self.process.stdin.close()
        os.close(self.reply_fd)
        self.stderr_file.close()
        remove_folder(self.scratch)


ZYGOTES: dict[str, Zygote] = {}


def forks_zygote(backend: Backend) -> bool:
    """Whether candidate processes of a backend are forks of a zygote."""
    return backend.capabilities.tracing != "no" and sys.platform == "linux"


def get_zygote(backend: Backend, settings: Settings) -> Zygote:
    """Return the zygote for this backend and these settings; start it if there is none or it has died, without waiting for it."""
    key = json.dumps([type(backend).__module__, type(backend).__qualname__, settings], sort_keys=True)
    if key not in ZYGOTES or ZYGOTES[key].process.poll() is not None:
        ZYGOTES[key] = Zygote(type(backend), settings, make_environment(1, Path(tempfile.gettempdir())) | dict(backend.environment))
    return ZYGOTES[key]


def make_environment(threads: int, scratch: Path) -> dict[str, str]:
    """Return the environment of a candidate process: of the user's variables, only those that locate programs and libraries."""
    user_variables = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    process_variables = {"HOME": str(scratch), "TMPDIR": str(scratch), "OMP_NUM_THREADS": str(threads), "OMP_THREAD_LIMIT": str(threads)}
    thread_variables = {
        "OMP_DYNAMIC": "false",
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    return {**user_variables, **process_variables, **thread_variables}


def disable_address_randomization() -> None:
    """Load processes started from now on at fixed addresses: a random library address can make a kernel 10% slower."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.personality(libc.personality(QUERY_PERSONALITY) | ADDR_NO_RANDOMIZE)  # a container may refuse; addresses then stay random
