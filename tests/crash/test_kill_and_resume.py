"""kill -9 of the run, a worker or a candidate process at random moments: the resumed run equals an undisturbed run."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from sampling import one_in

TASKS = "starter/gelu,starter/sum_rows"
RUN = [sys.executable, "-m", "evokernel.cli.main"]
RUN_ONLY, WORKER, CANDIDATE = ("run",), ("worker", "run"), ("candidate", "run")
KILLS = (
    (RUN_ONLY, ("candidate", "worker", "run")),
    (WORKER, CANDIDATE, RUN_ONLY, WORKER, CANDIDATE),
    (CANDIDATE, RUN_ONLY, WORKER, CANDIDATE, RUN_ONLY),
    (RUN_ONLY, WORKER, CANDIDATE, RUN_ONLY, WORKER),
)
"""For each series, the processes to kill one after another after each start of the run."""


def start_run(folder: Path) -> subprocess.Popen[bytes]:
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


def finish_run(folder: Path) -> None:
    for _ in range(5):
        if start_run(folder).wait(240) == 0:
            return
    pytest.fail("the run did not finish")


def list_descendants(pid: int) -> list[tuple[int, str]]:
    """Return every descendant of a process with its command line, from /proc."""
    descendants: list[tuple[int, str]] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            descendants += [(int(path.name), command), *list_descendants(int(path.name))]
    return descendants


def choose_victim(run: subprocess.Popen[bytes], target_kind: str) -> int:
    """Return the run, a worker, or a process that a worker started (a compiler or a candidate process)."""
    if target_kind == "run":
        return run.pid
    family = list_descendants(run.pid)
    workers = [pid for pid, command in family if "executors.worker" in command]
    children = [pid for pid, _ in family if pid not in workers]
    candidates = workers if target_kind == "worker" else children
    return random.choice(candidates) if candidates else 0


def wait_for(run: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a time, or until the run ends."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(seconds)


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed_run")
    finish_run(folder)
    return folder


def read_results(folder: Path) -> tuple[bytes, str]:
    """Return the journal as bytes, and the statistics of the bank."""
    process = subprocess.run(
        [*RUN, "memory", "stats", "--memory", str(folder / "bank.db"), "--json"], capture_output=True, text=True, check=True
    )
    return (folder / "out" / "attempts.jsonl").read_bytes(), process.stdout.replace(str(folder), "")


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("series", one_in(len(KILLS), range(len(KILLS))))
def test_killed_and_resumed_run_equals_undisturbed_run(series, undisturbed_run, tmp_path):
    random_source = random.Random(series)
    random.seed(series)
    for victims in KILLS[series]:
        run = start_run(tmp_path)
        wait_for(run, random_source.uniform(0.3, 3.5))
        for target_kind in victims:
            while run.poll() is None and not (target := choose_victim(run, target_kind)):
                time.sleep(0.02)
            if run.poll() is None:
                with suppress(ProcessLookupError):  # the process may end before it is killed
                    os.kill(target, signal.SIGKILL)
                wait_for(run, random_source.uniform(0.0, 1.0))
        run.wait()
    finish_run(tmp_path)
    assert read_results(tmp_path) == read_results(undisturbed_run)
