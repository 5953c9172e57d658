"""Packs a run for a machine without a network into one file (this package, its requirements, tasks and memory), and imports its results."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import evokernel
from evokernel.core import archives
from evokernel.core.errors import InfraError, UserError

ARCHIVE_ROOT, RESULTS, BANK = "evokernel-bundle", "results.tar.gz", "memory.db"
DOWNLOAD_S = 600.0
IGNORED_FOLDERS = ("__pycache__",)
MEMORY_OPTION = re.compile(r"--memory(=|$)|(--set=)?\s*memory\s*=")
"""Matches an argument of `run` that names a memory bank."""
SCRIPT = Path(__file__).parent / "bundle.sh"
"""The script that runs the bundle on the other machine."""


class PackedBundle(NamedTuple):
    """The bundle's file and its content."""

    file: Path
    nbytes: int
    packages: tuple[str, ...]
    command: tuple[str, ...]


class ImportedRun(NamedTuple):
    """The folder of an imported run, its bank and its number of attempts."""

    run: Path
    bank: Path | None
    attempts: int


def pack_bundle(
    out: Path,
    arguments: Sequence[str],
    tasks: Sequence[Path],
    bank: Path | None,
    python: str,
    platforms: Sequence[str],
    preinstalled: Iterable[str],
) -> PackedBundle:
    """Write one file with everything that `evokernel run ARGUMENTS` needs, except packages installed on the other machine."""
    if any(MEMORY_OPTION.match(one) for one in arguments):
        raise UserError("a bundle runs with its own memory bank. Name the bank's file with --memory before the '--', not after it.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / ARCHIVE_ROOT
        folder.mkdir()
        shutil.copytree(Path(str(evokernel.__file__)).parent, folder / "src" / "evokernel", ignore=shutil.ignore_patterns(*IGNORED_FOLDERS))
        packages = download_packages(folder / "site", python, platforms, {normalize_name(one) for one in preinstalled})
        for path in tasks:
            if not path.exists():
                raise UserError(f"task file or folder {path} does not exist")
            target = folder / "tasks" / path.name
            target.parent.mkdir(exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
        if bank:
            if not bank.exists():
                raise UserError(f"memory bank {bank} does not exist")
            shutil.copy(bank, folder / BANK)
        command = ("run", *arguments, "--out", "results", "--memory", BANK, "--plain")
        script = folder / "run.sh"
        text = SCRIPT.read_text().replace("@COMMAND@", shlex.join(command))
        script.write_text(text.replace("@RESULTS@", RESULTS).replace("@BANK@", BANK))
        script.chmod(0o755)
        try:
            with tarfile.open(out, "w:gz") as archive:
                archive.add(folder, ARCHIVE_ROOT)
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}. Choose another file.") from error
    return PackedBundle(out, out.stat().st_size, packages, command)


def download_packages(site: Path, python: str, platforms: Sequence[str], preinstalled: set[str]) -> tuple[str, ...]:
    """Download and unpack wheels for the other machine; return their names and versions."""
    needed = [one for one in package_requirements() if normalize_name(one) not in preinstalled]
    site.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "-d", name]
        command += ["--python-version", python, *(word for one in platforms for word in ("--platform", one)), *needed]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"pip cannot download the packages for the other machine: {error}") from error
        if process.returncode:
            message = next((line for line in process.stderr.splitlines() if line.startswith("ERROR")), "pip failed")
            raise UserError(f"no packages for Python {python} on {', '.join(platforms)}: {message.removeprefix('ERROR: ')}")
        wheels = [path for path in sorted(Path(name).glob("*.whl")) if normalize_name(path.name.partition("-")[0]) not in preinstalled]
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
    return tuple("-".join(wheel.name.split("-")[:2]) for wheel in wheels)


def package_requirements() -> list[str]:
    """Return the requirements of this package without its extras."""
    return [one for one in importlib.metadata.requires("evokernel") or [] if "extra ==" not in one]


def normalize_name(requirement: str) -> str:
    """Return the package name of a requirement in its normalized spelling."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else requirement


def import_results(file: Path, into: Path) -> ImportedRun:
    """Unpack the results of a bundle: the run as a folder below `into`, with its memory bank in it."""
    from evokernel.core.run import Run

    with tempfile.TemporaryDirectory() as name:
        try:
            with tarfile.open(file) as archive:
                archives.extract_archive(archive, Path(name))
        except (OSError, tarfile.TarError) as error:
            raise UserError(f"cannot read {file}: {error}. Import the file {RESULTS} that run.sh writes.") from error
        results = Path(name) / "results"
        if not (results / "run.toml").exists():
            raise UserError(f"{file} does not contain a run. Import the file {RESULTS} that run.sh writes.")
        run = into / Run.open(results).config.id
        if run.exists():
            raise UserError(f"{run} already exists. Remove it, or choose another folder with --into.")
        into.mkdir(parents=True, exist_ok=True)
        shutil.move(results, run)
        bank = Path(name) / BANK
        if bank.exists():
            shutil.move(bank, run / BANK)
    return ImportedRun(run, run / BANK if (run / BANK).exists() else None, len(Run.open(run).attempts()))
