"""llama.cpp's server, built for this very processor out of a source archive: a wheel is made for the oldest processors of its kind.

The archive is that of `llama-cpp-python`, downloaded by pip and checked against a pinned hash before anything of it is looked at; only
llama.cpp inside it is built, by cmake and the C++ compiler that is here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evokernel.core import archives, paths
from evokernel.core.errors import InfraError, UserError
from evokernel.llm import model_download

NAME = "llama-server"
OPTIONS = ("CMAKE_BUILD_TYPE=Release", "GGML_NATIVE=ON", "GGML_OPENMP=OFF", "BUILD_SHARED_LIBS=OFF")
LEFT_OUT = tuple(f"LLAMA_{what}=OFF" for what in ("CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES"))
STEP = re.compile(r"^\[(\d+)/(\d+)\]")
PIP = ("-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-cache-dir", "--require-hashes", "--retries", "2")

Report = Callable[[str, int, int], None]
"""Told what happens, the steps that are done, and all steps."""


class Source(NamedTuple):
    """An archive on the package index, and where llama.cpp lies in it."""

    package: str
    sha256: str
    inside: str


LLAMA_CPP = Source(
    package="llama-cpp-python==0.3.36",
    sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    inside="llama_cpp_python-0.3.36/vendor/llama.cpp",
)


def program(source: Source = LLAMA_CPP) -> Path:
    """Where it is kept; for another processor or another source it is another file."""
    key = "\0".join([source.sha256, *OPTIONS, *LEFT_OUT, platform.machine(), processor()])
    return paths.tools_folder() / f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def processor() -> str:
    """What this processor can do, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def lacking() -> str:
    """What a build needs and this machine does not have; nothing when it can."""
    for tool in ("cmake", "ninja"):
        if not tool_for(tool):
            return f"{tool} is not installed: pip install 'evokernel[local]'"
    return "" if shutil.which("c++") or shutil.which("g++") or shutil.which("clang++") else "no C++ compiler: apt install g++"


def tool_for(name: str) -> str | None:
    """A build tool: of this environment, else of the path."""
    found = importlib.util.find_spec(name)
    ours = Path(sys.executable).with_name(name)
    return str(ours) if found and ours.exists() else shutil.which(name)


def build(source: Source = LLAMA_CPP, jobs: int = 0, report: Report = lambda what, done, total: None) -> Path:
    """The program; what is there already is not built again. Takes ten minutes of a core."""
    path = program(source)
    with paths.hold_lock(path.with_suffix(".lock")):
        if path.is_file():
            return path
        if why := lacking():
            raise UserError(why)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as work:
            report(f"fetching {source.package}", 0, 0)
            unpacked = unpack(downloaded(source, Path(work)), source, Path(work) / "source")
            made = compiled(unpacked, Path(work), jobs or os.cpu_count() or 1, report)
            made.replace(path)
    return path


def downloaded(source: Source, work: Path) -> Path:
    """The archive, by pip from wherever pip is set up to look; one with another hash is refused."""
    (work / "wanted.txt").write_text(f"{source.package} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    command = [sys.executable, *PIP, "-d", str(work / "out"), "-r", str(work / "wanted.txt")]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    found = sorted((work / "out").glob("*.tar.gz"))
    if done.returncode or not found:
        raise InfraError(f"pip cannot download {source.package}: {model_download.trouble(done.stdout + done.stderr)}")
    return found[0]


def unpack(archive: Path, source: Source, into: Path) -> Path:
    """Only llama.cpp out of it."""
    with tarfile.open(archive) as packed:
        if not archives.extract_archive(packed, into, source.inside):
            raise InfraError(f"{source.package} does not hold {source.inside}")
    return into / source.inside


def compiled(unpacked: Path, work: Path, jobs: int, report: Report) -> Path:
    """The server's program, in the folder it was built in."""
    there = work / "build"
    flags = [f"-D{one}" for one in (*OPTIONS, *LEFT_OUT)]
    cmake, ninja = tool_for("cmake") or "cmake", tool_for("ninja") or "ninja"
    report("looking at this machine", 0, 0)
    run([cmake, "-S", str(unpacked), "-B", str(there), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *flags], lambda line: None)

    def told(line: str) -> None:
        if step := STEP.match(line):
            report("compiling", int(step[1]), int(step[2]))

    run([ninja, "-C", str(there), "-j", str(jobs), NAME], told)
    found = next((path for path in there.rglob(NAME) if path.is_file() and os.access(path, os.X_OK)), None)
    if not found:
        raise InfraError(f"the build gave no {NAME}")
    return found


def run(command: list[str], told: Callable[[str], None]) -> None:
    """A build step, line by line; InfraError with its last words when it fails."""
    last: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        is_read = False
        try:
            for line in process.stdout or ():
                told(line)
                last = [*last, line.strip()][-6:]
            is_read = True
        finally:
            if not is_read:
                process.kill()
    if process.returncode:
        raise InfraError(f"{Path(command[0]).name} failed while it built {NAME}: {' · '.join(filter(None, last))[-400:]}")
