"""A disk that fills up in the middle of a run: one line, exit code 2, and nothing lost once there is room again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "evokernel.cli.main"]
FIRST = [
    "run",
    "--backend",
    "cpp",
    "--tasks",
    "starter/gelu",
    "--budget",
    "2",
    "--set",
    "clock=synthetic",
    "--set",
    "protocol=paper",
    "--set",
    "id=full",
    "--workers",
    "1",
    "--out",
    "out",
    "--plain",
]


def call(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path):
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    assert call(FIRST, folder).returncode == 0
    return (folder / "out" / "attempts.jsonl").read_bytes()


def fill(disk: Path, leave_bytes: int) -> Path:
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ballast.write_bytes(b"x" * max(0, free - leave_bytes))
    return ballast


@pytest.mark.parametrize("leave_kb", [60, *(pytest.param(kb, marks=pytest.mark.slow) for kb in (600, 700))])
def test_nothing_is_lost(leave_kb, straight, disk):
    ballast = fill(disk, leave_kb << 10)
    full = call(FIRST, disk)
    assert full.returncode == 2, full.stdout + full.stderr
    assert "Traceback" not in full.stderr
    errors = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, full.stderr
    ballast.unlink()
    again = call(["resume", "out", "--plain"] if (disk / "out" / "run.toml").exists() else FIRST, disk)
    assert again.returncode == 0, again.stderr
    assert (disk / "out" / "attempts.jsonl").read_bytes() == straight
