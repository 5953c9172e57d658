"""Build llama.cpp's server from source for this processor: prebuilt wheels target the oldest processors of a kind and are slower.

pip downloads the source archive of `llama-cpp-python` and checks it against a pinned hash before anything in it is read. Only llama.cpp
inside it is built, with cmake and the installed C++ compiler.
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

SERVER_NAME = "llama-server"
OPTIONS = ("CMAKE_BUILD_TYPE=Release", "GGML_NATIVE=ON", "GGML_OPENMP=OFF", "BUILD_SHARED_LIBS=OFF")
DISABLED_FEATURES = tuple(f"LLAMA_{feature}=OFF" for feature in ("CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES"))
NINJA_STEP = re.compile(r"^\[(\d+)/(\d+)\]")
PIP = ("-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-cache-dir", "--require-hashes", "--retries", "2")

ProgressCallback = Callable[[str, int, int], None]
"""Called with the current step, the number of finished build steps, and the number of all build steps."""


class SourceArchive(NamedTuple):
    """A source archive on the package index, and the folder of llama.cpp in it."""

    package: str
    sha256: str
    subfolder: str


LLAMA_CPP = SourceArchive(
    package="llama-cpp-python==0.3.36",
    sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    subfolder="llama_cpp_python-0.3.36/vendor/llama.cpp",
)


def program_path(source: SourceArchive = LLAMA_CPP) -> Path:
    """The path of the built program, different for every source and processor."""
    key = "\0".join([source.sha256, *OPTIONS, *DISABLED_FEATURES, platform.machine(), processor_features()])
    return paths.tools_folder() / f"{SERVER_NAME}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def processor_features() -> str:
    """The instruction set extensions of this processor, as the operating system lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def find_missing_tool() -> str:
    """The build tool that is not installed, with the command to install it; empty if a build is possible."""
    for tool in ("cmake", "ninja"):
        if not find_tool(tool):
            return f"{tool} is not installed: pip install 'evokernel[local]'"
    return "" if shutil.which("c++") or shutil.which("g++") or shutil.which("clang++") else "no C++ compiler: apt install g++"


def find_tool(name: str) -> str | None:
    """The path of a build tool in this Python environment, or else on the PATH."""
    spec = importlib.util.find_spec(name)
    own_tool = Path(sys.executable).with_name(name)
    return str(own_tool) if spec and own_tool.exists() else shutil.which(name)


def build_server(source: SourceArchive = LLAMA_CPP, jobs: int = 0, report: ProgressCallback = lambda step, count, total: None) -> Path:
    """Build the program unless it exists already; takes ten minutes on one core."""
    path = program_path(source)
    with paths.hold_lock(path.with_suffix(".lock")):
        if path.is_file():
            return path
        if missing_tool := find_missing_tool():
            raise UserError(missing_tool)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as work_folder:
            report(f"downloading {source.package}", 0, 0)
            archive = download_archive(source, Path(work_folder))
            source_folder = extract_source(archive, source, Path(work_folder) / "source")
            program = compile_server(source_folder, Path(work_folder), jobs or os.cpu_count() or 1, report)
            program.replace(path)
    return path


def download_archive(source: SourceArchive, work_folder: Path) -> Path:
    """Download the archive with pip, from the package index that pip is configured for; pip rejects another hash."""
    requirements = work_folder / "requirements.txt"
    requirements.write_text(f"{source.package} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    command = [sys.executable, *PIP, "-d", str(work_folder / "out"), "-r", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    files = sorted((work_folder / "out").glob("*.tar.gz"))
    if result.returncode or not files:
        raise InfraError(f"pip cannot download {source.package}: {model_download.summarize_pip_error(result.stdout + result.stderr)}")
    return files[0]


def extract_source(archive: Path, source: SourceArchive, folder: Path) -> Path:
    """Extract only llama.cpp from the archive; return its folder."""
    with tarfile.open(archive) as members:
        if not archives.extract_archive(members, folder, source.subfolder):
            raise InfraError(f"{source.package} does not contain {source.subfolder}")
    return folder / source.subfolder


def compile_server(source_folder: Path, work_folder: Path, jobs: int, report: ProgressCallback) -> Path:
    """Compile the server; return the path of the program in the build folder."""
    build_folder = work_folder / "build"
    flags = [f"-D{option}" for option in (*OPTIONS, *DISABLED_FEATURES)]
    cmake, ninja = find_tool("cmake") or "cmake", find_tool("ninja") or "ninja"
    report("configuring", 0, 0)
    configure = [cmake, "-S", str(source_folder), "-B", str(build_folder), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *flags]
    run_build_step(configure, lambda line: None)

    def report_step(line: str) -> None:
        if step := NINJA_STEP.match(line):
            report("compiling", int(step[1]), int(step[2]))

    run_build_step([ninja, "-C", str(build_folder), "-j", str(jobs), SERVER_NAME], report_step)
    program = next((path for path in build_folder.rglob(SERVER_NAME) if path.is_file() and os.access(path, os.X_OK)), None)
    if not program:
        raise InfraError(f"the build produced no {SERVER_NAME}")
    return program


def run_build_step(command: list[str], on_line: Callable[[str], None]) -> None:
    """Run a build command and pass on its output line by line; InfraError with its last lines if it fails."""
    last_lines: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        is_finished = False
        try:
            for line in process.stdout or ():
                on_line(line)
                last_lines = [*last_lines, line.strip()][-6:]
            is_finished = True
        finally:
            if not is_finished:
                process.kill()
    if process.returncode:
        raise InfraError(f"{Path(command[0]).name} failed to build {SERVER_NAME}: {' · '.join(filter(None, last_lines))[-400:]}")
