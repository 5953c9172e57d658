"""Keeps compiled objects of extensions by content: the same source with the same flags, headers and compilers is compiled once.

A compiler error is kept as well, because an extension that our light headers do not suit is compiled with PyTorch's after that.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.native.toolchain import CompilerRun, compiler_version_text, run_compiler
from evokernel.core import paths

log = logging.getLogger(__name__)
FOLDER = "cuda-objects"
MAX_ENTRIES = 2000
KEPT_SHARE = 0.75
"""With more entries than that, the oldest are removed until this share is left."""
COMPILER_ERROR = 1
MAX_MESSAGE_CHARS = 100_000


class CompileStep(NamedTuple):
    """One compilation."""

    program: str
    options: list[str]
    text: str
    name: str
    """Name of the source and the object, without suffix."""
    find_options: Callable[[], Sequence[str]] = tuple
    """Returns further options that only save time, such as a precompiled header; called only if something is compiled."""


class ObjectCache:
    """Compiled objects by a hash of everything that decides them."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or paths.cache_folder() / FOLDER

    def compile(self, step: CompileStep, workdir: Path, headers: str, timeout_s: float, readable: Sequence[Path]) -> CompilerRun:
        """Compile a step in a folder, or copy what an earlier compilation of the same content made there.

        `headers` stands for the contents of all headers and for the compilers that the program starts.
        """
        target = workdir / f"{step.name}.o"
        key = hash_parts([compiler_version_text(step.program), headers, *step.options, step.text])
        if earlier := self.load(key, target):
            return earlier
        (workdir / f"{step.name}.src").write_text(step.text)
        arguments = [*step.find_options(), *step.options, "-c", f"{step.name}.src", "-o", target.name]
        result = run_compiler(step.program, arguments, workdir, timeout_s, readable)
        self.store(key, result, target)
        return result

    def load(self, key: str, target: Path) -> CompilerRun | None:
        """Copy a kept object to its target, or return a kept error."""
        entry = self.folder / key[:2] / key
        try:
            record = json.loads(entry.with_suffix(".json").read_text())
            if record["code"] == 0:
                shutil.copyfile(entry.with_suffix(".o"), target)
            return CompilerRun(int(record["code"]), str(record["text"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def store(self, key: str, result: CompilerRun, target: Path) -> None:
        """Keep an object or a compiler's error; time-outs and killed compilers are not kept. A full disk is no error."""
        if result.timed_out or result.is_killed or result.code not in (0, COMPILER_ERROR) or (result.code == 0 and not target.is_file()):
            return
        entry = self.folder / key[:2] / key
        try:
            if result.code == 0:
                paths.write_bytes(entry.with_suffix(".o"), target.read_bytes())
            record = {"code": result.code, "text": result.text[:MAX_MESSAGE_CHARS]}
            paths.write_bytes(entry.with_suffix(".json"), json.dumps(record).encode())
            self.remove_oldest()
        except OSError as error:
            log.debug("object not kept: %s", error)

    def remove_oldest(self) -> None:
        """Remove the oldest entries if there are too many."""
        entries = sorted(self.folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)
        if len(entries) <= MAX_ENTRIES:
            return
        for path in entries[: len(entries) - int(MAX_ENTRIES * KEPT_SHARE)]:
            path.unlink(missing_ok=True)
            path.with_suffix(".o").unlink(missing_ok=True)


def hash_parts(parts: Sequence[str]) -> str:
    """Hash of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
