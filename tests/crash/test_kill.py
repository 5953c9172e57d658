"""kill -9 of the run, of a worker, of a child, at random moments; what is resumed ends as what was never disturbed."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

TASKS = "starter/gelu,starter/sum_rows"
RUN = [sys.executable, "-m", "evokernel.cli.main"]
RUN_ONLY, WORKER, CHILD = ("run",), ("worker", "run"), ("child", "run")
KILLS = (
    (RUN_ONLY, ("child", "worker", "run")),
    (WORKER, CHILD, RUN_ONLY, WORKER, CHILD),
    (CHILD, RUN_ONLY, WORKER, CHILD, RUN_ONLY),
    (RUN_ONLY, WORKER, CHILD, RUN_ONLY, WORKER),
)
"""In each series, who is killed one after the other each time that the run was begun; the first series, everybody."""


def begin(folder: Path) -> subprocess.Popen[bytes]:
    settings = [
        "--set",
        "clock=synthetic",
        "--set",
        "protocol=paper",
        "--set",
        "id=crash",
        "--memory",
        str(folder / "bank.db"),
        "--workers",
        "2",
        "--plain",
    ]
    if (folder / "out" / "run.toml").exists():
        command = [*RUN, "resume", str(folder / "out"), "--plain"]
    else:
        command = [*RUN, "run", "--backend", "cpp", "--tasks", TASKS, "--budget", "3", "--out", str(folder / "out"), *settings]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)


def finish(folder: Path) -> None:
    for _ in range(5):
        if begin(folder).wait(240) == 0:
            return
    pytest.fail("the run does not finish")


def below(pid: int) -> list[tuple[int, str]]:
    """Every descendant of a process with its command line, from /proc."""
    found: list[tuple[int, str]] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found += [(int(path.name), command), *below(int(path.name))]
    return found


def victim(run: subprocess.Popen[bytes], whom: str) -> int:
    """The run itself, a worker, or whatever a worker has started (a compiler or the candidate's child)."""
    if whom == "run":
        return run.pid
    family = below(run.pid)
    workers = [pid for pid, command in family if "executors.worker" in command]
    children = [pid for pid, _ in family if pid not in workers]
    chosen = workers if whom == "worker" else children
    return random.choice(chosen) if chosen else 0


def wait(run: subprocess.Popen[bytes], seconds: float) -> None:
    """So long, or until the run ends."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(seconds)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    finish(folder)
    return folder


def facts(folder: Path) -> tuple[bytes, str]:
    """The journal, byte for byte, and what the bank learned from it."""
    done = subprocess.run(
        [*RUN, "memory", "stats", "--memory", str(folder / "bank.db"), "--json"], capture_output=True, text=True, check=True
    )
    return (folder / "out" / "attempts.jsonl").read_bytes(), done.stdout.replace(str(folder), "")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its victims in /proc")
@pytest.mark.parametrize("series", [0, *(pytest.param(series, marks=pytest.mark.slow) for series in (1, 2, 3))])
def test_killed_and_resumed_equals_undisturbed(series, straight, tmp_path):
    chance = random.Random(series)
    random.seed(series)
    for victims in KILLS[series]:
        run = begin(tmp_path)
        wait(run, chance.uniform(0.3, 3.5))
        for whom in victims:
            while run.poll() is None and not (target := victim(run, whom)):
                time.sleep(0.02)
            if run.poll() is None:
                with suppress(ProcessLookupError):  # it may end by itself between being chosen and being killed
                    os.kill(target, signal.SIGKILL)
                wait(run, chance.uniform(0.0, 1.0))
        run.wait()
    finish(tmp_path)
    assert facts(tmp_path) == facts(straight)
