"""Several runs at once on one machine, one bank and one clock; and a streaming run that is killed again and again."""

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


def begin(folder: Path, name: str, *more: str) -> subprocess.Popen[bytes]:
    words = ["run", "--backend", "cpp", "--tasks", "starter/gelu,starter/sum_rows", "--budget", "1", "--set", f"id={name}"]
    places = ["--memory", str(folder / "bank.db"), "--out", str(folder / name)]
    return subprocess.Popen([*RUN, *words, *places, *QUICK, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)


def attempts(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_runs_share_a_bank_and_a_clock(tmp_path):
    runs = [begin(tmp_path, "one", "--set", "backend.threads=2"), begin(tmp_path, "two", "--set", "backend.threads=2")]
    assert [run.wait(240) for run in runs] == [0, 0]
    for name in ("one", "two"):
        assert sorted(Counter(one["task"] for one in attempts(tmp_path / name)).values()) == [1, 1]
        assert {one["run"] for one in attempts(tmp_path / name)} == {name}
        assert not (tmp_path / name / "incidents.jsonl").exists()
    told = subprocess.run(
        [*RUN, "memory", "stats", "--memory", str(tmp_path / "bank.db"), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout)["runs"] == 2


@pytest.mark.slow
def test_a_streaming_run_loses_nothing_to_kill_9(tmp_path):
    chance = random.Random(0)
    run = begin(tmp_path, "one", "--set", "mode=streaming", "--budget", "3", "--set", "clock=synthetic")
    for _ in range(2):
        time.sleep(chance.uniform(2, 5))
        run.send_signal(signal.SIGKILL)
        run.wait()
        if not (tmp_path / "one" / "run.toml").exists():
            run = begin(tmp_path, "one", "--set", "mode=streaming", "--budget", "3", "--set", "clock=synthetic")
        else:
            run = subprocess.Popen([*RUN, "resume", str(tmp_path / "one"), "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = run.communicate(timeout=240)[1]
    assert run.returncode == 0, said
    made = attempts(tmp_path / "one")
    assert sorted(one["id"] for one in made) == sorted(f"starter/{name}/{n}" for name in ("gelu", "sum_rows") for n in range(3))
