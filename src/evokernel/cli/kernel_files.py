"""A kernel as it lies on the disk: what it is written in, and its text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.records import Candidate

MOST_FILES, MOST_BYTES, MOST_SEEN = 64, 2 << 20, 10_000
HEAD_BYTES = 8192
BUILT_FOLDERS = {"__pycache__", "build", "build_out", "node_modules"}
BUILT = {".a", ".bin", ".d", ".gch", ".log", ".o", ".obj", ".pyc", ".run", ".so"}
"""Endings of what is made out of a kernel, and no part of it."""


def written_in(path: Path) -> str:
    """The backend whose candidates are files like this one; the default one when there is none."""
    from evokernel.core.config import RunConfig
    from evokernel.generators.prompting import file_name

    backends = known()
    for name, backend in backends.items():
        if (path / file_name(backend)).is_file():
            return name
    for name, backend in backends.items():
        if (recognises := getattr(backend, "recognises", None)) and recognises(path):
            return name
    for name, backend in backends.items():
        if path.suffix and path.suffix == Path(file_name(backend)).suffix:
            return name
    return RunConfig().plugin_name("backend")


def known() -> dict[str, object]:
    """The classes of all backends that can be loaded here."""
    from evokernel.core import plugins

    found = {}
    for name in plugins.plugin_names("backend"):
        try:
            found[name] = plugins.find_plugin("backend", name)
        except UserError:  # one that cannot be loaded is not what was meant
            continue
    return found


def candidate(path: Path, backend: str) -> Candidate:
    """The kernel's text. A single file goes by the name `kernel`, whatever it is called on disk."""
    from evokernel.core.records import Candidate

    try:
        files = below(path) if path.is_dir() else {f"kernel{path.suffix}": text_of(path)}
    except OSError as error:
        raise UserError(f"cannot read {error.filename or path}: {error.strerror}; name a kernel's file or folder") from error
    if not files:
        raise UserError(f"{path} holds no files; name a kernel's file or folder")
    return Candidate(backend=backend, files=files)


def below(folder: Path) -> dict[str, str]:
    """All text in a folder and its folders, by its place in there."""
    found: dict[str, str] = {}
    size = 0
    for seen, path in enumerate(sources(folder)):
        if is_binary(path):
            continue
        size += path.stat().st_size
        if len(found) == MOST_FILES or size > MOST_BYTES or seen > MOST_SEEN:
            limits = f"{MOST_FILES} files or {MOST_BYTES >> 20} MiB of text"
            raise UserError(f"{folder} holds more than {limits}: name a folder with nothing but the kernel in it")
        found[path.relative_to(folder).as_posix()] = text_of(path)
    return dict(sorted(found.items()))


def sources(folder: Path) -> Iterator[Path]:
    """Files that may belong to a kernel: none that are hidden, none that were built."""
    for home, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in BUILT_FOLDERS)
        for name in sorted(names):
            path = Path(home) / name
            if not name.startswith(".") and path.suffix not in BUILT and path.is_file():
                yield path


def fail(error: OSError) -> None:
    """A folder that cannot be read is not passed over."""
    raise error


def is_binary(path: Path) -> bool:
    """Whether this is no text at all, such as a picture."""
    with path.open("rb") as file:
        return b"\0" in file.read(HEAD_BYTES)


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text: name a kernel's source, not something built from it") from error


def refuse_what_is_no_kernel(kernel: Candidate, backend: object) -> None:
    """Mistakes of the caller, which say nothing about a kernel: a file of another backend, or nothing in it."""
    from evokernel.generators.prompting import file_name

    file, others = file_name(backend), tuple(getattr(backend, "takes", ()))
    given = ", ".join(islice(kernel.files, 5)) + (", ..." if len(kernel.files) > 5 else "")
    if not any(Path(name).suffix in (Path(file).suffix, *others) for name in kernel.files):
        wanted = f"{file} (or {', '.join(others)})" if others else file
        raise UserError(f"backend '{kernel.backend}' takes {wanted}, not {given}; name such a file, or the right --backend")
    if not any(text.strip() for text in kernel.files.values()):
        raise UserError(f"{given} is empty; write a kernel into it ('evokernel tasks show TASK' prints what it must look like)")
