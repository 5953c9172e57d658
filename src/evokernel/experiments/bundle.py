"""A run packed for a machine without a network: this package, what it needs, tasks and memory in one file; and what comes back."""

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

HOME, RESULTS, BANK = "evokernel-bundle", "results.tar.gz", "memory.db"
DOWNLOAD_S = 600.0
SKIPPED = ("__pycache__",)
NAMES_BANK = re.compile(r"--memory(=|$)|(--set=)?\s*memory\s*=")
"""Among the arguments of a run; they are written into the bundle as they are."""
SCRIPT = Path(__file__).parent / "bundle.sh"
"""What is called on the other machine."""


class Packed(NamedTuple):
    """What was made."""

    file: Path
    nbytes: int
    packages: tuple[str, ...]
    command: tuple[str, ...]


class Brought(NamedTuple):
    """What came back."""

    run: Path
    bank: Path | None
    attempts: int


def pack(
    out: Path,
    arguments: Sequence[str],
    tasks: Sequence[Path],
    bank: Path | None,
    python: str,
    platforms: Sequence[str],
    there: Iterable[str],
) -> Packed:
    """One file with everything that `evokernel run ARGUMENTS` needs, but for what is on the other machine already (`there`)."""
    if any(NAMES_BANK.match(one) for one in arguments):
        raise UserError("a bundle runs with the bank it takes along: name its file with --memory before the '--', not after it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / HOME
        folder.mkdir()
        shutil.copytree(Path(str(evokernel.__file__)).parent, folder / "src" / "evokernel", ignore=shutil.ignore_patterns(*SKIPPED))
        packages = fetch(folder / "site", python, platforms, {normal(one) for one in there})
        for path in tasks:
            if not path.exists():
                raise UserError(f"no task file or folder {path}")
            target = folder / "tasks" / path.name
            target.parent.mkdir(exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
        if bank:
            if not bank.exists():
                raise UserError(f"no memory bank {bank}")
            shutil.copy(bank, folder / BANK)
        command = ("run", *arguments, "--out", "results", "--memory", BANK, "--plain")
        script = folder / "run.sh"
        text = SCRIPT.read_text().replace("@COMMAND@", shlex.join(command))
        script.write_text(text.replace("@RESULTS@", RESULTS).replace("@BANK@", BANK))
        script.chmod(0o755)
        try:
            with tarfile.open(out, "w:gz") as archive:
                archive.add(folder, HOME)
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from error
    return Packed(out, out.stat().st_size, packages, command)


def fetch(site: Path, python: str, platforms: Sequence[str], there: set[str]) -> tuple[str, ...]:
    """Wheels for the other machine, unpacked; gives what they are."""
    wanted = [one for one in requirements() if normal(one) not in there]
    site.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "-d", name]
        command += ["--python-version", python, *(word for one in platforms for word in ("--platform", one)), *wanted]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfraError(f"pip cannot fetch what the other machine needs: {error}") from error
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), "pip failed")
            raise UserError(f"no packages for Python {python} on {', '.join(platforms)}: {said.removeprefix('ERROR: ')}")
        wheels = [path for path in sorted(Path(name).glob("*.whl")) if normal(path.name.partition("-")[0]) not in there]
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
    return tuple("-".join(wheel.name.split("-")[:2]) for wheel in wheels)


def requirements() -> list[str]:
    """What this package needs to run at all, without its extras."""
    return [one for one in importlib.metadata.requires("evokernel") or [] if "extra ==" not in one]


def normal(requirement: str) -> str:
    """The name in a requirement, in the one spelling all share."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else requirement


def back(file: Path, into: Path) -> Brought:
    """Unpacks what came back: the run as a folder of its own below `into`, its memory beside the journal."""
    from evokernel.core.run import Run

    with tempfile.TemporaryDirectory() as name:
        try:
            with tarfile.open(file) as archive:
                archives.extract_archive(archive, Path(name))
        except (OSError, tarfile.TarError) as error:
            raise UserError(f"{file} cannot be read: {error}; bring back {RESULTS}, which run.sh writes") from error
        found = Path(name) / "results"
        if not (found / "run.toml").exists():
            raise UserError(f"{file} holds no run; bring back {RESULTS}, which run.sh writes")
        run = into / Run.open(found).config.id
        if run.exists():
            raise UserError(f"{run} is there already: remove it, or choose another place with --into")
        into.mkdir(parents=True, exist_ok=True)
        shutil.move(found, run)
        bank = Path(name) / BANK
        if bank.exists():
            shutil.move(bank, run / BANK)
    return Brought(run, run / BANK if (run / BANK).exists() else None, len(Run.open(run).attempts()))
