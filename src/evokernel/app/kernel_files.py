"""Reads kernels from disk: detects their backend and collects their source files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from evokernel.core import plugins
from evokernel.core.backend import Backend
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.paths import write_files
from evokernel.core.records import Candidate

MAX_FILES, MAX_BYTES, MAX_VISITED = 64, 2 << 20, 10_000
HEAD_BYTES = 8192
STDIN = Path("-")
PART_MARKER = re.compile(r"\s*//\s*file:\s*(\S+)\s*$")
BUILD_FOLDERS = {"__pycache__", "build", "build_out", "node_modules"}
BUILD_SUFFIXES = {".a", ".bin", ".d", ".gch", ".log", ".o", ".obj", ".pyc", ".run", ".so"}
"""Suffixes of build products, which are not part of a kernel."""


def detect_backend(path: Path) -> str:
    """The backend whose candidates look like this file or folder; the default backend if none does."""
    backends = load_backend_classes()
    for name, backend in backends.items():
        if (path / backend.file_name).is_file():
            return name
    for name, backend in backends.items():
        if backend.recognizes(path):
            return name
    for name, backend in backends.items():
        if path.suffix and path.suffix in (Path(backend.file_name).suffix, *backend.same_suffixes):
            return name
    return RunConfig().plugin_name("backend")


def is_kernel(path: Path) -> bool:
    """Whether a path is one kernel: a file, the standard input, or a folder that a backend recognizes as one kernel."""
    backends = load_backend_classes().values()
    return not path.is_dir() or any((path / backend.file_name).is_file() or backend.recognizes(path) for backend in backends)


def list_kernels(path: Path) -> list[Path]:
    """The kernels of a folder: its files in a kernel language and its folders that are kernels; the path itself if it is a kernel."""
    if is_kernel(path):
        return [path]
    suffixes = kernel_suffixes()
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")) and entry.name not in BUILD_FOLDERS)
    return [entry for entry in entries if (is_kernel(entry) if entry.is_dir() else entry.suffix in suffixes)] or [path]


def kernel_suffixes() -> set[str]:
    """The suffixes of files in a kernel language, such as `.cpp`."""
    return {suffix for cls in load_backend_classes().values() for suffix in (Path(cls.file_name).suffix, *cls.same_suffixes)}


def name_file_lines(detail: str, kernel: Candidate, file_name: str) -> str:
    """Add the line of the user's file to each `PART line N` or `PART:N`, if the kernel is one file of parts after lines `// file: PART`."""
    if len(kernel.files) != 1:
        return detail
    lines = next(iter(kernel.files.values())).splitlines()
    part_lines = {match[1]: number for number, line in enumerate(lines, 1) if (match := PART_MARKER.match(line))}
    for part, marker_line in part_lines.items():
        pattern = rf"(?<![\w./]){re.escape(part)}(?: line |:)(\d+)"
        detail = re.sub(pattern, partial(add_file_line, file_name, marker_line), detail)
    return detail


def add_file_line(file_name: str, marker_line: int, match: re.Match[str]) -> str:
    """Returns a reference to a line of a part, with the line of the whole file added."""
    return f"{match[0]} ({file_name} line {marker_line + int(match[1])})"


def load_backend_classes() -> dict[str, type[Backend]]:
    """The classes of all backends that can be loaded on this machine."""
    classes = {}
    for name in plugins.plugin_names("backend"):
        try:
            classes[name] = plugins.find_plugin("backend", name)
        except UserError:  # a backend that cannot be loaded cannot be the one
            continue
    return classes


def read_candidate(path: Path, backend: str) -> Candidate:
    """The kernel as a candidate. A single file is stored under the name `kernel`; `-` is the standard input."""
    try:
        files = read_folder(path) if path.is_dir() else {stored_name(path, backend): read_text(path)}
    except OSError as error:
        raise UserError(f"cannot read {error.filename or path}: {error.strerror}. Name the file or folder of a kernel.") from error
    if not files:
        raise UserError(f"{path} contains no files. Name the file or folder of a kernel.")
    return Candidate(backend=backend, files=files)


def read_folder(folder: Path) -> dict[str, str]:
    """All text files of a folder and its subfolders, by relative path."""
    files: dict[str, str] = {}
    size = 0
    for visited, path in enumerate(list_source_files(folder)):
        if is_binary(path):
            continue
        size += path.stat().st_size
        if len(files) == MAX_FILES or size > MAX_BYTES or visited > MAX_VISITED:
            limits = f"{MAX_FILES} files or {MAX_BYTES >> 20} MiB of text"
            raise UserError(f"{folder} contains more than {limits}. Name a folder that contains only the kernel.")
        files[path.relative_to(folder).as_posix()] = read_text(path)
    return dict(sorted(files.items()))


def list_source_files(folder: Path) -> Iterator[Path]:
    """Files that may belong to a kernel: no hidden files and no build products."""
    for directory, folders, names in os.walk(folder, onerror=raise_error):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in BUILD_FOLDERS)
        for name in sorted(names):
            path = Path(directory) / name
            if not name.startswith(".") and path.suffix not in BUILD_SUFFIXES and path.is_file():
                yield path


def raise_error(error: OSError) -> None:
    """Raise the error of an unreadable folder instead of skipping the folder."""
    raise error


def is_binary(path: Path) -> bool:
    """Whether the file is not text, such as a picture."""
    with path.open("rb") as file:
        return b"\0" in file.read(HEAD_BYTES)


def stored_name(path: Path, backend: str) -> str:
    """The name of a single file in a candidate: `kernel.cpp` for `mine.cpp`, for `mine.cc` and for the standard input."""
    backend_class = load_backend_classes().get(backend)
    if backend_class and (path == STDIN or path.suffix in backend_class.same_suffixes):
        return backend_class.file_name
    return f"kernel{path.suffix}"


def read_text(path: Path) -> str:
    """The text of a file or of the standard input; raises UserError if it is not UTF-8."""
    try:
        return sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text. Name the source of a kernel, not a build product.") from error


def require_kernel_source(kernel: Candidate, backend: Backend | type[Backend]) -> None:
    """Refuse mistakes of the caller that say nothing about a kernel: a file of another backend, or empty files."""
    file, other_suffixes = backend.file_name, backend.other_suffixes
    listed = ", ".join(islice(kernel.files, 5)) + (", ..." if len(kernel.files) > 5 else "")
    if not any(Path(name).suffix in (Path(file).suffix, *other_suffixes) for name in kernel.files):
        expected = f"{file} (or {', '.join(other_suffixes)})" if other_suffixes else file
        raise UserError(f"backend '{kernel.backend}' takes {expected}, not {listed}. Name such a file, or choose another backend.")
    if not any(text.strip() for text in kernel.files.values()):
        raise UserError(f"{listed} is empty. Write a kernel into it; 'evokernel tasks show TASK' prints its entry point.")


def write_kernel(kernel: Candidate, source: Path, out: Path) -> Path:
    """Write the files of a kernel to a file, or to a folder if it was read from one."""
    try:
        if source.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            write_files(out, kernel.files)
        else:
            out.write_text(next(iter(kernel.files.values())), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}. Choose another --out.") from error
    return out
