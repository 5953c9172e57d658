"""The process that holds the compiler: built once per machine, started once per judge, ended with it."""

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
import time
from pathlib import Path
from typing import BinaryIO

from evokernel.backends.pallas import emulator, libtpu
from evokernel.core import paths
from evokernel.core.errors import InfraError
from evokernel.sandbox import exec_compiler, profiles

SOURCE = Path(__file__).parent / "driver.c"
BUILD = ("-std=c11", "-O1", "-ldl", "-lpthread")
TARGET = "x86_64-linux-gnu.2.31"
START_TIMEOUT_S, BUILD_TIMEOUT_S = 180.0, 300.0
PREFIX = "evokernel-tpu-"
LIMITS = {"RLIMIT_FSIZE": 1 << 30, "RLIMIT_NOFILE": 1024}
SHARED_FROM = 3
"""Programs a process must have seen before its translations are worth sharing."""
DUMPED = "final_bundles|final_hlo-static-per-bundle-utilization|deduplication-map"
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",  # asks no metadata server
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",  # this and the next two only silence warnings
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a lock file admits one process per machine
    "TPU_STDERR_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "LC_ALL": "C",
}
FATAL = re.compile(r"^F\d{4} |Check failed|terminate called|error while loading|Unsupported|^cannot (start|enter)")
STATUS = (
    *("", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE"),
    *("DATA_LOSS", "UNAUTHENTICATED"),
)


class Died(Exception):
    """The process ended in the middle of its work; the words are the last it wrote."""


class Driver:
    """One process with the compiler in it. Not to be shared between threads."""

    def __init__(self) -> None:
        library, runner = libtpu.find(), emulator.find()
        if library is None or runner is None:
            raise InfraError(libtpu.missing() or emulator.missing() or "no TPU compiler")
        program = build()
        remove_leftovers()
        self.folder, self.lock = claimed_folder()
        self.dumps = self.folder / "dumps"
        self.dumps.mkdir()
        self.translations = Translations(self.folder / "translations", runner.version) if runner.keeps_translations else None
        address = libtpu.access_address(library) if runner.lacks_access else None
        words = [*runner.command, str(program), str(library), str(os.getpid()), *([str(address)] if address else [])]
        self.buffer, self.requests = b"", 0
        jail = profiles.compiler(words[0], [*map(str, (paths.tools_folder(), library.parent))], str(self.folder), (), LIMITS)
        try:
            with (self.folder / "errors").open("wb") as errors:
                self.process = subprocess.Popen(
                    exec_compiler.command(jail, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0, cwd=self.folder,
                    env=self.environment(runner), process_group=0,
                )  # fmt: skip
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise InfraError(f"cannot start the TPU compiler: {error}") from error
        try:
            refusal = self.answer(START_TIMEOUT_S)
        except (Died, TimeoutError) as error:
            self.kill()
            raise InfraError(f"the TPU compiler does not start: {error}") from error
        if refusal is not None:
            self.kill()
            raise InfraError(f"the TPU compiler does not start: {refusal}")

    def environment(self, runner: emulator.Emulator) -> dict[str, str]:
        """All that the process sees of ours."""
        flags = f"--xla_jf_dump_to={self.dumps} --xla_jf_dump_llo_text=true --xla_jf_dump_llo_pass_label_regex={DUMPED}"
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        kept = self.translations.environment() if self.translations else {}
        logs = {"TPU_LOG_DIR": str(self.folder / "logs"), "LIBTPU_INIT_ARGS": flags}
        return {**own, **ENVIRONMENT, **logs, **runner.environment, **kept}

    def compile(self, topology: str, program: bytes, options: bytes, timeout_s: float) -> str | None:
        """None when it compiled and the dumps lie in `dumps`, else the compiler's words. After Died or TimeoutError it is of no use."""
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
            raise Died(self.last_words()) from None
        self.requests += 1
        return self.answer(timeout_s)

    def answer(self, timeout_s: float) -> str | None:
        """Reads one answer: None for `ready` and `done`."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            self.read(deadline)
        line, self.buffer = self.buffer.split(b"\n", 1)
        word, *figures = line.decode().split()
        if word != "error":
            return None
        code, length = map(int, figures)
        while len(self.buffer) < length:
            self.read(deadline)
        text, self.buffer = self.buffer[:length].decode(errors="replace"), self.buffer[length:]
        status = STATUS[code] if code < len(STATUS) else f"status {code}"
        return f"{status}: {text}" if status else text

    def read(self, deadline: float) -> None:
        """Takes what is there, or waits for it."""
        assert self.process.stdout is not None
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
            raise TimeoutError("no answer in time")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise Died(self.last_words())
        self.buffer += data

    def last_words(self) -> str:
        """How the process ended, and the last complaint it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        ended = "no end in sight" if code is None else signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = (self.folder / "errors").read_text(errors="replace").splitlines()
        fatal = [re.sub(r"^F\d{4} \S+ +\d+ ", "", line) for line in lines if FATAL.search(line)]
        return "; ".join([ended, *(line.strip()[:500] for line in fatal[:1])])

    def resident_bytes(self) -> int:
        """Memory the process holds."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGESIZE")

    def close(self) -> None:
        """Lets the process end by itself, which is when the emulator writes what it translated."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.process.stdin.write(b"quit\n")
            if self.process.wait(10) == 0 and self.translations and self.requests >= SHARED_FROM:
                self.translations.share()
        self.kill()

    def kill(self) -> None:
        """Ends the process and all it started, and removes its folder."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.let_go()
        shutil.rmtree(self.folder, ignore_errors=True)

    def let_go(self) -> None:
        """Closes our ends, and leaves the process alone."""
        for end in (self.process.stdin, self.process.stdout, self.lock):
            if end:
                end.close()


class Translations:
    """What box64 translated, kept for later processes: it saves the first compile three seconds. The first process writes it,
    into its own folder, and whoever ends properly first shares it; all others only read."""

    def __init__(self, own: Path, version: str) -> None:
        self.own, self.shared = own, self.shared_folder(version)

    @staticmethod
    def shared_folder(version: str) -> Path:
        return paths.tools_folder() / f"translations-{version}-{libtpu.VERSION}"

    def environment(self) -> dict[str, str]:
        if self.shared.is_dir():
            return {"BOX64_DYNACACHE": "2", "BOX64_DYNACACHE_FOLDER": str(self.shared)}
        return {"BOX64_DYNACACHE": "1", "BOX64_DYNACACHE_COMPRESS": "0", "BOX64_DYNACACHE_FOLDER": str(self.own)}

    def share(self) -> None:
        """Moves ours to where others look, unless somebody was faster."""
        if self.own.is_dir() and not self.shared.exists():
            part = self.shared.with_name(f"{self.shared.name}.{os.getpid()}.part")
            with contextlib.suppress(OSError):
                shutil.copytree(self.own, part)
                part.rename(self.shared)
            shutil.rmtree(part, ignore_errors=True)


def compiler() -> list[str] | None:
    """A C compiler that makes x86-64 Linux programs."""
    if libtpu.is_native():
        found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        return [found] if found else None
    if found := shutil.which("x86_64-linux-gnu-gcc"):
        return [found]
    return [sys.executable, "-m", "ziglang", "cc", "-target", TARGET] if importlib.util.find_spec("ziglang") else None


def missing() -> str | None:
    """Words that name the fix when there is no such compiler and no driver either."""
    if compiler() or program().is_file():
        return None
    fix = "apt install gcc" if libtpu.is_native() else "pip install 'evokernel[pallas]'"
    return f"no C compiler for x86-64 programs: {fix}"


def program() -> Path:
    """Where the driver is kept; another text is another file."""
    key = hashlib.sha256("\0".join([SOURCE.read_text(), *BUILD, TARGET]).encode()).hexdigest()[:16]
    return paths.tools_folder() / f"driver-{key}"


def build() -> Path:
    """The driver, compiled if it is not there yet."""
    path, tool = program(), compiler()
    if path.is_file():
        return path
    if tool is None:
        raise InfraError(missing() or "no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        part = Path(work) / "driver"
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": work, "ZIG_LOCAL_CACHE_DIR": work}
        try:
            command = [*tool, str(SOURCE), "-o", str(part), *BUILD]
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"cannot compile the driver: {error}") from error
        if done.returncode or not part.is_file():
            raise InfraError(f"cannot compile the driver: {' '.join(done.stderr.split())[-500:]}")
        part.replace(path)
    return path


def claimed_folder() -> tuple[Path, BinaryIO]:
    """A folder of our own, and the lock that says so for as long as it is open."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / "claim").open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "claim").rename(folder / "lock")
    return folder, lock


def remove_leftovers() -> None:
    """Folders of processes that were killed: nobody holds their locks."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        with contextlib.suppress(OSError), path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
