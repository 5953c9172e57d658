"""Starts the child, talks to it, and decides who is to blame when it stops talking."""

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
from pathlib import Path
from typing import NamedTuple

from evokernel.core import isolated_python
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Backend, CallShape, DeviceAccess, DeviceUser, TracedBackend
from evokernel.core.records import Job, Settings
from evokernel.sandbox import profiles
from evokernel.sandbox.profiles import Plan
from evokernel.verify.candidate_main import Change
from evokernel.verify.reasons import REASONS, clean
from evokernel.verify.scratch_dir import refuse_too_much, refuse_what_is_no_file, remove
from evokernel.verify.shared_buffers import Arena, BufferSlot
from evokernel.verify.zygote import Forked, Zygote

START_S, EXIT_S, WATCH_S = 60.0, 5.0, 0.05
ANSWER_BYTES = 16 << 10
RUNTIME_THREADS = 8
PASSED_ON = ("PATH", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
ASK_PERSONALITY, ADDR_NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000
OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
"""Signals a kernel does not die of by itself: someone, or the system short of memory, sent them."""


class Window(NamedTuple):
    """What a command cost, on the judge's clocks."""

    wall_s: float
    cpu_s: float | None
    """Charged to the child; None where the system does not tell."""
    told: tuple[float, float] = (0.0, 0.0)
    """Processor and wall time as the child says. Never taken for a time: only held against the judge's."""


class CandidateProcess:
    """A process with one candidate in it. Its answers are not believed, only waited for."""

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
        """`memory_bytes` 0 sets no limit to its address space; `variables` are added to its environment."""
        self.arena, self.workdir, self.left_s = arena, workdir, job.timeout_s
        self.timeout_s, self.disk_bytes, self.is_watched = job.timeout_s, 2 * file_bytes, False
        self.answers, theirs = os.pipe()
        self.buffer = b""
        self.scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=workdir))
        self.errors = self.scratch.with_suffix(".err").open("w+b")
        given = (theirs, arena.inputs.descriptor, arena.outputs.descriptor)
        access = backend.access(workdir) if isinstance(backend, DeviceUser) else None
        self.is_believed = isinstance(backend, TracedBackend) and not holds_candidate(backend, workdir)
        jail = self.jail(backend, threads, memory_bytes, file_bytes, bool(variables), access)
        try:
            self.process = self.start(job, backend, given, threads, dict(variables or {}) | (access.variables if access else {}))
        except (OSError, InfraError) as error:
            os.close(self.answers)
            self.errors.close()
            raise InfraError(f"the child cannot be started: {error}") from error
        finally:
            os.close(theirs)
        self.cpu_clock = clock_of(self.process.pid)
        order = {
            "judge": os.getpid(),
            "answers": theirs,
            "inputs": given[1],
            "outputs": given[2],
            "backend": f"{type(backend).__module__}:{type(backend).__qualname__}",
            "settings": job.settings,
            "workdir": str(workdir),
            "jail": jail,
        }
        self.send(json.dumps(order))

    def jail(
        self, backend: Backend, threads: int, memory_bytes: int, file_bytes: int, is_sanitized: bool, access: DeviceAccess | None = None
    ) -> Plan:
        """Machine code runs where nothing can be written; what traces, interprets, reports or uses a device has a folder of its own."""
        limits = {"RLIMIT_FSIZE": file_bytes, "RLIMIT_CPU": int(self.timeout_s * threads) + 30}
        seen = [str(self.workdir)]
        if access:
            self.is_watched = True  # its runtime leaves logs, and waits for the device in threads of its own
            limits["RLIMIT_CPU"] = int(self.timeout_s * RUNTIME_THREADS) + 30
            if not access.holds_candidate:
                return profiles.driver(limits)
            return profiles.card(backend, [*seen, *access.readable], str(self.scratch), access.devices, limits)  # and reserves terabytes
        if isinstance(backend, TracedBackend) or is_sanitized:
            plan = profiles.interpreter(backend, seen, str(self.scratch), limits)
        else:
            plan = profiles.kernel(backend, seen, threads, limits if threads > 1 else limits | {"RLIMIT_NPROC": 0})
        return plan | {"more_memory": memory_bytes} if memory_bytes and "limits" in plan else plan

    def start(
        self, job: Job, backend: Backend, given: tuple[int, int, int], threads: int, added: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | Forked:
        """A copy of a process that has the backend loaded, where the backend can be copied; else a process of its own."""
        variables = environment(threads, self.scratch) | dict(added)
        if isinstance(backend, TracedBackend):
            variables |= backend.environment
            if sys.platform == "linux":
                return Forked(zygote(backend, job.settings), self.errors, given, self.scratch, variables)
        fix_addresses()
        return subprocess.Popen(
            isolated_python.isolated_command("evokernel.verify.candidate_main", "main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            cwd=self.scratch,
            env=variables,
            pass_fds=given,
            process_group=0,
        )

    def wait_ready(self) -> None:
        """Until then nothing is the candidate's fault."""
        try:
            line = self.line(time.monotonic() + START_S)
        except TimeoutError:
            line = None
        if line != b"ready":
            self.stop()
            raise InfraError(
                f"the child did not start (exit code {self.process.returncode}): {self.stderr_tail()[-600:] or 'it said nothing'}"
            )

    def load(self) -> None:
        self.command("load", "")

    def prepare(self, word: str, source: Path, calls: dict[str, CallShape], into: Path) -> None:
        """Has the backend trace a candidate, or inspect or lower its programs; what that leaves is in `into`."""
        theirs = self.scratch / word
        theirs.mkdir()
        self.is_watched = True
        self.command(word, json.dumps([str(source), calls, str(theirs)]))
        if into.exists():
            raise CandidateError("forbidden", "the kernel writes into the judge's folder")
        try:
            refuse_too_much(self.scratch, self.disk_bytes)
            refuse_what_is_no_file(theirs)
            theirs.rename(into)
        except OSError as error:  # whoever may write there may also take it away
            raise CandidateError("forbidden", f"the folder for what the kernel's process leaves was changed: {error.strerror}") from error

    def bind(self, slot: BufferSlot, scalars: tuple[tuple[str, str, float], ...]) -> None:
        """Makes a slot callable; slots are bound in the order in which they were made."""
        spec = {"spans": [slot.in_span, slot.out_span], "inputs": slot.inputs, "scalars": scalars, "outputs": slot.outputs}
        self.command("bind", json.dumps(spec))

    def run(self, slot: BufferSlot, calls: int = 1, changes: Sequence[Change] = ()) -> Window:
        """Runs a poisoned slot; with several calls, outputs are spoiled and inputs changed in between. No calls: what talking costs."""
        marks = self.arena.marks(slot)
        return self.command("run", json.dumps([slot.number, marks, changes, calls if marks else min(calls, 1)]))

    def cpu_s(self) -> float | None:
        """Processor time charged to the child so far."""
        if self.cpu_clock is None:
            return None
        try:
            return time.clock_gettime(self.cpu_clock)
        except OSError:
            return None

    def command(self, word: str, rest: str) -> Window:
        """Sends one command and waits for its answer, no longer than the job's time allows."""
        self.assert_idle()
        nonce = secrets.token_hex(8)
        cpu, wall = self.cpu_s(), time.perf_counter()
        self.send(f"{word} {nonce} {rest}")
        try:
            line = self.line(time.monotonic() + self.left_s)
        except TimeoutError as error:
            self.stop()
            raise CandidateError("timeout", f"not finished after {self.timeout_s:g} s") from error
        spent, cpu_end = time.perf_counter() - wall, self.cpu_s()
        self.left_s -= spent
        if line is None:
            self.raise_for_exit()
        assert line is not None
        told = self.parse_reply(line, nonce)
        return Window(spent, cpu_end - cpu if cpu is not None and cpu_end is not None else None, told)

    def parse_reply(self, line: bytes, nonce: str) -> tuple[float, float]:
        """An answer to this command says that it is through and what it took, or why not; anything else was not written by our side."""
        word, _, rest = line.decode(errors="replace").partition(" ")
        said, _, text = rest.partition(" ")
        if said != nonce or word not in ("done", "failed", "infra"):
            raise CandidateError("forbidden", "the kernel writes into the judge's channel")
        try:
            if word == "done":
                cpu_s, wall_s = map(float, text.split())
                return cpu_s, wall_s
            found = json.loads(text)
            if word == "infra" and self.is_believed:
                raise InfraError(clean(str(found)))
            if word == "infra":
                raise CandidateError("killed", f"the kernel's process says that the machine failed: {found}")
            reason, detail = (str(part) for part in found)
        except (ValueError, TypeError, RecursionError) as error:  # it may be anything
            raise CandidateError("forbidden", "the kernel writes into the judge's channel") from error
        raise CandidateError(reason if reason in REASONS else "raised", detail)

    def assert_idle(self) -> None:
        """Between commands the child has nothing to say."""
        if self.buffer or select.select([self.answers], [], [], 0)[0]:
            if not self.buffer and self.process.poll() is not None:
                self.raise_for_exit()
            chunk = os.read(self.answers, 1) if not self.buffer else self.buffer
            if not chunk:
                self.raise_for_exit()
            raise CandidateError("forbidden", "the kernel writes into the judge's channel")

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # it is dead; the missing answer tells how it died

    def line(self, deadline: float) -> bytes | None:
        """The next line; None at the end of the stream, or when it is too long to be an answer."""
        while b"\n" not in self.buffer:
            if len(self.buffer) > ANSWER_BYTES:
                return None
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self.answers], [], [], min(left_s, WATCH_S) if self.is_watched else left_s)[0]:
                if not self.is_watched or left_s <= WATCH_S:
                    raise TimeoutError
                refuse_too_much(self.scratch, self.disk_bytes)
                continue
            chunk = os.read(self.answers, 4096)
            if not chunk:
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def raise_for_exit(self) -> None:
        """Raises what the silence of the child means."""
        if len(self.buffer) > ANSWER_BYTES:
            raise CandidateError("forbidden", "the kernel floods the judge's channel")
        try:
            ended = self.process.wait(EXIT_S)  # the pipe closes a moment before the process is gone
        except subprocess.TimeoutExpired:
            self.stop()
            raise CandidateError("forbidden", "the kernel closed the judge's channel") from None
        self.stop()
        said = clean(self.stderr_tail()[-400:]).strip()
        if "bad_alloc" in said or "out of memory" in said.lower() or "cannot allocate memory" in said.lower():
            raise CandidateError("memory", "the kernel asked for more memory than it may use")
        if ended >= 0:
            raise CandidateError("exit", f"the kernel ended its process with exit code {ended}" + (f": {said}" if said else ""))
        if -ended not in list(signal.Signals):
            raise CandidateError("crash", f"the kernel died of signal {-ended}, which no fault sends")
        died = signal.Signals(-ended)
        if died == signal.SIGSYS:
            raise CandidateError(
                "forbidden", "the kernel asked the system for something that computing does not need, and was ended for it"
            )
        if died in OUTSIDE:
            raise CandidateError("killed", f"the kernel's process was killed from outside ({died.name})")
        if died == signal.SIGXCPU:
            raise CandidateError("timeout", "the kernel used up its processor time")
        raise CandidateError(
            "crash", f"the kernel died of {died.name} ({signal.strsignal(died)}){hint(died)}" + (f": {said}" if said else "")
        )

    def reported(self, limit: int = 64 << 10, since: int = 0) -> str:
        """What it wrote to stderr, from a place on."""
        return os.pread(self.errors.fileno(), limit, since).decode(errors="replace")

    def reported_bytes(self) -> int:
        """How much that is so far."""
        return os.fstat(self.errors.fileno()).st_size

    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr."""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - 4096))
        return self.errors.read().decode(errors="replace")

    def stop(self) -> None:
        """Ends the child and everything in its group, and waits until all of it is gone."""
        deadline = time.monotonic() + EXIT_S
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.poll()
                time.sleep(0.001)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.stop()
        if self.process.stdin:
            with suppress(BrokenPipeError):  # it died with a command unread
                self.process.stdin.close()
        os.close(self.answers)
        self.errors.close()
        remove(self.scratch)


def holds_candidate(backend: Backend, workdir: Path) -> bool:
    """Whether the process that runs a traced candidate holds its own code after all, and could say anything of the machine it is on."""
    return hasattr(backend, "is_interpreted") and bool(backend.is_interpreted(workdir))


ZYGOTES: dict[str, Zygote] = {}


def zygote(backend: TracedBackend, settings: Settings) -> Zygote:
    """The one for this backend with these settings, started when first needed and again when it is gone."""
    key = json.dumps([type(backend).__module__, type(backend).__qualname__, settings], sort_keys=True)
    if key not in ZYGOTES or ZYGOTES[key].process.poll() is not None:
        ZYGOTES[key] = Zygote(type(backend), settings, environment(1, Path(tempfile.gettempdir())) | backend.environment)
    return ZYGOTES[key]


def hint(died: signal.Signals) -> str:
    """What a signal usually means in a kernel."""
    return {
        signal.SIGSEGV: ", reading or writing outside its tensors (inputs cannot be written), or a stack array that is too large",
        signal.SIGBUS: ", reading or writing outside its tensors or misaligned",
        signal.SIGFPE: ", such as an integer division by zero",
        signal.SIGILL: ", an instruction this processor does not have",
    }.get(died, "")


def environment(threads: int, scratch: Path) -> dict[str, str]:
    """Nothing of the user's but where programs and libraries are."""
    given = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "OMP_NUM_THREADS": str(threads), "OMP_THREAD_LIMIT": str(threads)}
    fixed = {
        "OMP_DYNAMIC": "false",
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    return {**given, **own, **fixed}


def fix_addresses() -> None:
    """What is started from now on is loaded at the same addresses: where chance puts a library can make a kernel a tenth slower."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.personality(libc.personality(ASK_PERSONALITY) | ADDR_NO_RANDOMIZE)  # containers may refuse; then chance it is


def clock_of(pid: int) -> int | None:
    """The clock of a process's CPU time (Linux: ~pid in the upper bits, 2 for scheduled time); None where there is none."""
    if sys.platform != "linux":
        return None
    clock = (~pid << 3) | 2
    try:
        time.clock_gettime(clock)
    except OSError:
        return None
    return clock
