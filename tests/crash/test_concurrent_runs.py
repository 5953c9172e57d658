"""Concurrent runs on one machine with one bank and one timing lock; and a streaming run that is killed repeatedly."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "evokernel.cli.main"]
QUICK = ["--set", "protocol=paper", "--set", "timing_s=0.05", "--plain", "--workers", "1"]


def start_run(folder: Path, name: str, *extra: str) -> subprocess.Popen[bytes]:
    arguments = ["run", "--backend", "cpp", "--tasks", "starter/gelu,starter/sum_rows", "--budget", "1", "--set", f"id={name}"]
    paths = ["--memory", str(folder / "bank.db"), "--out", str(folder / name)]
    return subprocess.Popen([*RUN, *arguments, *paths, *QUICK, *extra], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)


def read_attempts(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_concurrent_runs_share_a_bank_and_the_timing_lock(tmp_path):
    runs = [start_run(tmp_path, "one", "--set", "backend.threads=2"), start_run(tmp_path, "two", "--set", "backend.threads=2")]
    assert [run.wait(240) for run in runs] == [0, 0]
    for name in ("one", "two"):
        assert sorted(Counter(one["task"] for one in read_attempts(tmp_path / name)).values()) == [1, 1]
        assert {one["run"] for one in read_attempts(tmp_path / name)} == {name}
        assert not (tmp_path / name / "incidents.jsonl").exists()
    statistics = subprocess.run(
        [*RUN, "memory", "stats", "--memory", str(tmp_path / "bank.db"), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(statistics.stdout)["runs"] == 2


@pytest.mark.slow
def test_killed_streaming_run_loses_no_attempt(tmp_path):
    chance = random.Random(0)
    run = start_run(tmp_path, "one", "--set", "schedule=streaming", "--budget", "3", "--set", "clock=synthetic")
    for _ in range(2):
        time.sleep(chance.uniform(2, 5))
        run.send_signal(signal.SIGKILL)
        run.wait()
        if not (tmp_path / "one" / "run.toml").exists():
            run = start_run(tmp_path, "one", "--set", "schedule=streaming", "--budget", "3", "--set", "clock=synthetic")
        else:
            run = subprocess.Popen([*RUN, "resume", str(tmp_path / "one"), "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = run.communicate(timeout=240)[1]
    assert run.returncode == 0, stderr
    records = read_attempts(tmp_path / "one")
    assert sorted(one["id"] for one in records) == sorted(f"starter/{name}/{n}" for name in ("gelu", "sum_rows") for n in range(3))
