"""Runs as training data: every attempt with what led to it, the same in both formats, nothing of what was taken back."""

import json
import shutil

import pytest

from evokernel.app import factory
from evokernel.core.config import resolve_config
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments.trajectories import rows, write

TASK = "import torch\nN = 8\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two attempts on one operator."""
    here = tmp_path_factory.mktemp("here")
    (here / "twice.py").write_text(TASK + "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(here)
        settings = ["backend=cpp", "clock=synthetic", "budget=2", "workers=1", "fresh=true", "generator=template_search", "tasks=twice.py"]
        engine = factory.create_engine(resolve_config(None, settings), here / "run")
        list(engine.attempts())
        engine.close()
    return Run.open(here / "run")


def test_a_row_tells_all_that_led_to_an_attempt(run):
    first, second = rows(run)
    attempts = run.attempts()
    assert [row["attempt"] for row in (first, second)] == [attempt.id for attempt in attempts]
    assert first["reference"].startswith("import torch")
    assert first["files"] == attempts[0].candidate.files
    assert first["reward"] == attempts[0].reward
    assert (first["stage"], first["round"], first["backend"], first["generator"]) == ("draft", 0, "cpp", "sweep")
    assert first["model"] is None
    assert first["cost_usd"] is None
    assert first["versions"]["evokernel"]
    shown = {one["id"]: one for one in second["shown"]}
    assert set(shown) == {ref.id for ref in attempts[1].shown}
    assert all(one["title"] and one["role"] for one in shown.values()), "in the bank's words"
    assert attempts[0].outcome.feasible
    assert second["start"] == attempts[0].id


def test_both_formats_hold_the_same(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write(rows(run), tmp_path / "a.jsonl") == write(rows(run), tmp_path / "a.parquet") == 2
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    for one, other in zip(lines, table, strict=True):
        assert list(one) == list(other)
        for name, value in one.items():
            assert value == (json.loads(other[name]) if isinstance(value, dict | list) else other[name]), name
    assert lines == list(rows(run))


def test_only_what_passed(run):
    assert all(row["feasible"] for row in rows(run, only_feasible=True))
    assert len(list(rows(run, only_feasible=True))) == sum(attempt.outcome.feasible for attempt in run.attempts())


def test_what_was_taken_back_is_not_handed_on(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    copy = Run.open(tmp_path / "run")
    good = next(attempt for attempt in copy.attempts() if attempt.outcome.feasible)
    copy.lock()
    copy.revoke([good.id])
    copy.unlock()
    row = next(row for row in rows(copy) if row["attempt"] == good.id)
    assert row["files"] == {}
    assert row["prompt"] is row["reply"] is None
    assert row["reason"] == "revoked"
    assert row["latency_us"] is None


def test_bad_calls(run, tmp_path):
    with pytest.raises(UserError, match=r"ends in \.jsonl or \.parquet"):
        write(rows(run), tmp_path / "a.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write(rows(run), tmp_path / "file" / "a.jsonl")
