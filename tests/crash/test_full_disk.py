"""A disk that fills up during a run: one error line, exit code 2, and no attempt lost after space is freed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import one_in

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


def run_cli(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path):
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount_result = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, text=True)
    if mount_result.returncode:
        pytest.skip(f"cannot mount a small file system: {mount_result.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def undisturbed_journal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed_journal")
    assert run_cli(FIRST, folder).returncode == 0
    return (folder / "out" / "attempts.jsonl").read_bytes()


def fill_disk(disk: Path, leave_bytes: int) -> Path:
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ballast.write_bytes(b"x" * max(0, free - leave_bytes))
    return ballast


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("leave_kb", one_in(3, (60, 600, 700)))
def test_run_on_a_full_disk_can_be_resumed(leave_kb, undisturbed_journal, disk):
    ballast = fill_disk(disk, leave_kb << 10)
    full = run_cli(FIRST, disk)
    assert full.returncode == 2, full.stdout + full.stderr
    assert "Traceback" not in full.stderr
    errors = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, full.stderr
    ballast.unlink()
    second_run = run_cli(["resume", "out", "--plain"] if (disk / "out" / "run.toml").exists() else FIRST, disk)
    assert second_run.returncode == 0, second_run.stderr
    assert (disk / "out" / "attempts.jsonl").read_bytes() == undisturbed_journal
