"""The compiler process: a small C program that loads libtpu. It is built once per machine, and ends with the process that started it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from evokernel.backends.pallas import emulator, libtpu
from evokernel.core import paths
from evokernel.core.cpu_time import ProcessClock
from evokernel.core.errors import InfraError
from evokernel.sandbox import exec_compiler, profiles

SOURCE = Path(__file__).parent / "compiler_process.c"
BUILD_FLAGS = ("-std=c11", "-O1", "-ldl", "-lpthread")
TARGET = "x86_64-linux-gnu.2.31"
START_TIMEOUT_S, BUILD_TIMEOUT_S, MIN_WAIT_S = 180.0, 300.0, 0.05
PREFIX = "evokernel-tpu-"
LIMITS = {"RLIMIT_FSIZE": 1 << 30, "RLIMIT_NOFILE": 1024}
MIN_REQUESTS_TO_PUBLISH = 3
"""Programs a process must have compiled before it publishes its translations."""
PROTOCOL_ERROR = "the compiler process"
"""How `compiler_process.c` begins messages about its own faults; all other messages come from the compiler."""
DUMPED_PASSES = "final_bundles|final_hlo-static-per-bundle-utilization|deduplication-map"
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",  # do not query a metadata server
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",  # this and the next two variables only silence warnings
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # otherwise a lock file admits one process per machine
    "TPU_STDERR_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "LC_ALL": "C",
}
FATAL_LINE = re.compile(r"^F\d{4} |Check failed|terminate called|error while loading|Unsupported|^cannot (start|enter)")
STATUS_NAMES = (
    *("", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE"),
    *("DATA_LOSS", "UNAUTHENTICATED"),
)


class ProcessDied(Exception):
    """The process ended before it answered; the message says how it ended and quotes its last error line."""


class CompilerProcess:
    """One compiler process. Only one thread at a time may use it."""

    def __init__(self) -> None:
        library, runner = libtpu.find_library(), emulator.find_emulator()
        if library is None or runner is None:
            raise InfraError(libtpu.unavailable_reason() or emulator.unavailable_reason() or "no TPU compiler")
        executable = build_executable()
        remove_stale_folders()
        self.folder, self.lock = create_locked_folder()
        self.dumps = self.folder / "dumps"
        self.dumps.mkdir()
        self.translations = TranslationCache(self.folder / "translations", runner.version) if runner.caches_translations else None
        offset = libtpu.faccessat_offset(library) if runner.lacks_faccessat else None
        command = [*runner.command, str(executable), str(library), str(os.getpid()), *([str(offset)] if offset else [])]
        self.buffer, self.requests = b"", 0
        profile = profiles.plan_compiler(command[0], [*map(str, (paths.tools_folder(), library.parent))], str(self.folder), (), LIMITS)
        try:
            with (self.folder / "errors").open("wb") as errors:
                self.process = subprocess.Popen(
                    exec_compiler.make_sandboxed_command(profile, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    bufsize=0, cwd=self.folder, env=self.environment(runner), process_group=0,
                )  # fmt: skip
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise InfraError(f"cannot start the TPU compiler: {error}") from error
        try:
            rejection = self.read_answer(START_TIMEOUT_S)
        except (ProcessDied, TimeoutError) as error:
            self.kill()
            raise InfraError(f"the TPU compiler did not start: {error}") from error
        if rejection is not None:
            self.kill()
            raise InfraError(f"the TPU compiler did not start: {rejection}")

    def environment(self, runner: emulator.Emulator) -> dict[str, str]:
        """All environment variables of the compiler process."""
        flags = f"--xla_jf_dump_to={self.dumps} --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex={DUMPED_PASSES}"
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        cache = self.translations.environment() if self.translations else {}
        logs = {"TPU_LOG_DIR": str(self.folder / "logs"), "LIBTPU_INIT_ARGS": flags}
        return {**own, **ENVIRONMENT, **logs, **runner.environment, **cache}

    def compile(self, topology: str, program: bytes, options: bytes, timeout_s: float) -> str | None:
        """Compiles one program. Returns None once the dumps are in `dumps`, or the compiler's error message.

        After ProcessDied or TimeoutError the process cannot be used again.
        """
        for old in self.dumps.iterdir():
            old.unlink()
        files = self.folder / "program", self.folder / "options"
        for path, data in zip(files, (program, options), strict=True):
            path.write_bytes(data)
        request = "\t".join([topology, *map(str, files)]) + "\n"
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request.encode())
        except BrokenPipeError:
            raise ProcessDied(self.describe_exit()) from None
        self.requests += 1
        return self.read_answer(timeout_s)

    def read_answer(self, timeout_s: float) -> str | None:
        """Reads one answer: None for `ready` and `done`, the message for `error`."""
        limit = AnswerLimit(self.process.pid, timeout_s)
        while b"\n" not in self.buffer:
            self.read_available(limit)
        line, self.buffer = self.buffer.split(b"\n", 1)
        keyword, *numbers = line.decode().split()
        if keyword != "error":
            return None
        code, length = map(int, numbers)
        while len(self.buffer) < length:
            self.read_available(limit)
        text, self.buffer = self.buffer[:length].decode(errors="replace"), self.buffer[length:]
        status = STATUS_NAMES[code] if code < len(STATUS_NAMES) else f"status {code}"
        return f"{status}: {text}" if status else text

    def read_available(self, limit: AnswerLimit) -> None:
        """Appends the available output to the buffer; waits within the limit if there is none."""
        assert self.process.stdout is not None
        while not select.select([self.process.stdout], [], [], max(MIN_WAIT_S, limit.remaining_s()))[0]:
            if limit.remaining_s() <= 0:
                raise TimeoutError("no answer within the time limit")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise ProcessDied(self.describe_exit())
        self.buffer += data

    def describe_exit(self) -> str:
        """How the process ended, with the first fatal line of its error output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        status = "still running" if code is None else signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = (self.folder / "errors").read_text(errors="replace").splitlines()
        fatal = [re.sub(r"^F\d{4} \S+ +\d+ ", "", line) for line in lines if FATAL_LINE.search(line)]
        return "; ".join([status, *(line.strip()[:500] for line in fatal[:1])])

    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGESIZE")

    def close(self) -> None:
        """Asks the process to exit, because the emulator writes its translations on a normal exit; then releases everything."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.process.stdin.write(b"quit\n")
            if self.process.wait(10) == 0 and self.translations and self.requests >= MIN_REQUESTS_TO_PUBLISH:
                self.translations.publish()
        self.kill()

    def kill(self) -> None:
        """Kills the process group and removes its folder."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.close_pipes()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close_pipes(self) -> None:
        """Closes this side of the pipes and the lock; does not touch the process."""
        for stream in (self.process.stdin, self.process.stdout, self.lock):
            if stream:
                stream.close()


class AnswerLimit:
    """The time that the compiler may take for an answer, in CPU seconds of its process."""

    def __init__(self, pid: int, timeout_s: float) -> None:
        self.clock, self.timeout_s = ProcessClock(pid), timeout_s
        self.start = self.clock.read()

    def remaining_s(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.timeout_s - self.clock.charge_since(self.start))


class TranslationCache:
    """box64's cached translations, which save the first compile of a process three seconds.

    The first processes write translations into their own folders. The first of them that exits normally publishes its folder, and all
    later processes only read it.
    """

    def __init__(self, own_folder: Path, version: str) -> None:
        self.own_folder, self.shared_folder = own_folder, self.folder_for(version)

    @staticmethod
    def folder_for(version: str) -> Path:
        return paths.tools_folder() / f"translations-{version}-{libtpu.VERSION}"

    def environment(self) -> dict[str, str]:
        if self.shared_folder.is_dir():
            return {"BOX64_DYNACACHE": "2", "BOX64_DYNACACHE_FOLDER": str(self.shared_folder)}
        return {"BOX64_DYNACACHE": "1", "BOX64_DYNACACHE_COMPRESS": "0", "BOX64_DYNACACHE_FOLDER": str(self.own_folder)}

    def publish(self) -> None:
        """Copies our translations to the shared folder, unless another process has already done so."""
        if self.own_folder.is_dir() and not self.shared_folder.exists():
            part = self.shared_folder.with_name(f"{self.shared_folder.name}.{os.getpid()}.part")
            with contextlib.suppress(OSError):
                shutil.copytree(self.own_folder, part)
                part.rename(self.shared_folder)
            shutil.rmtree(part, ignore_errors=True)


def find_c_compiler() -> list[str] | None:
    """The command of a C compiler for x86-64 Linux programs; None if there is none."""
    if libtpu.is_native():
        path = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        return [path] if path else None
    if path := shutil.which("x86_64-linux-gnu-gcc"):
        return [path]
    return [sys.executable, "-m", "ziglang", "cc", "-target", TARGET] if importlib.util.find_spec("ziglang") else None


def unavailable_reason() -> str | None:
    """The missing tool and the command that installs it, if the executable can neither be found nor built."""
    if find_c_compiler() or executable_path().is_file():
        return None
    fix = "apt install gcc" if libtpu.is_native() else "pip install 'evokernel[pallas]'"
    return f"no C compiler for x86-64 programs is installed: {fix}"


def executable_path() -> Path:
    """Path of the executable; its name contains a hash of the source and the flags."""
    key = hashlib.sha256("\0".join([SOURCE.read_text(), *BUILD_FLAGS, TARGET]).encode()).hexdigest()[:16]
    return paths.tools_folder() / f"compiler-process-{key}"


def build_executable() -> Path:
    """Path of the executable; compiles it if it does not exist yet."""
    path, tool = executable_path(), find_c_compiler()
    if path.is_file():
        return path
    if tool is None:
        raise InfraError(unavailable_reason() or "no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        part = Path(work) / "compiler-process"
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": work, "ZIG_LOCAL_CACHE_DIR": work}
        try:
            command = [*tool, str(SOURCE), "-o", str(part), *BUILD_FLAGS]
            result = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"cannot build {SOURCE.name}: {error}") from error
        if result.returncode or not part.is_file():
            raise InfraError(f"cannot build {SOURCE.name}: {' '.join(result.stderr.split())[-500:]}")
        part.replace(path)
    return path


def create_locked_folder() -> tuple[Path, BinaryIO]:
    """A new temporary folder, and its lock: while the lock file is open, other processes do not remove the folder."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / "claim").open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "claim").rename(folder / "lock")
    return folder, lock


def remove_stale_folders() -> None:
    """Removes the folders of processes that were killed: no process holds their locks."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        with contextlib.suppress(OSError), path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
