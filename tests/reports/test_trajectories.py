"""Runs as training data: every attempt with its context, equal in both formats, without revoked kernels."""

import json
import shutil

import pytest

from evokernel.app import factory
from evokernel.core.config import resolve_config
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.reports.trajectories import attempt_rows, write_rows

TASK = "import torch\nN = 8\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two attempts on one operator."""
    here = tmp_path_factory.mktemp("here")
    (here / "twice.py").write_text(TASK + "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(here)
        settings = ["backend=cpp", "clock=synthetic", "budget=2", "workers=1", "fresh=true", "generator=template_search", "tasks=twice.py"]
        engine = factory.create_engine(resolve_config(None, settings), here / "run")
        list(engine.make_attempts())
        engine.close()
    return Run.open(here / "run")


@pytest.mark.slow(one_in=5)
def test_row_contains_the_attempt_and_its_context(run):
    first, second = attempt_rows(run)
    attempts = run.attempts()
    assert [row["attempt"] for row in (first, second)] == [attempt.id for attempt in attempts]
    assert first["reference"].startswith("import torch")
    assert first["files"] == attempts[0].candidate.files
    assert first["reward"] == attempts[0].reward
    assert (first["stage"], first["round"], first["backend"], first["generator"]) == ("draft", 0, "cpp", "template_search")
    assert first["model"] is None
    assert first["cost_usd"] is None
    assert first["versions"]["evokernel"]
    items = {one["id"]: one for one in second["shown_items"]}
    assert set(items) == {ref.id for ref in attempts[1].shown_items}
    assert all(one["title"] and one["role"] for one in items.values()), "texts come from the bank"
    assert attempts[0].outcome.feasible
    assert second["start_point"] == attempts[0].id


def test_both_formats_are_equal(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_rows(attempt_rows(run), tmp_path / "a.jsonl") == write_rows(attempt_rows(run), tmp_path / "a.parquet") == 2
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    for one, other in zip(lines, table, strict=True):
        assert list(one) == list(other)
        for name, value in one.items():
            assert value == (json.loads(other[name]) if isinstance(value, dict | list) else other[name]), name
    assert lines == list(attempt_rows(run))


def test_only_feasible_attempts_are_exported_if_asked(run):
    assert all(row["feasible"] for row in attempt_rows(run, only_feasible=True))
    assert len(list(attempt_rows(run, only_feasible=True))) == sum(attempt.outcome.feasible for attempt in run.attempts())


def test_revoked_kernel_is_not_exported(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    copy = Run.open(tmp_path / "run")
    good = next(attempt for attempt in copy.attempts() if attempt.outcome.feasible)
    copy.lock()
    copy.revoke([good.id])
    copy.unlock()
    row = next(row for row in attempt_rows(copy) if row["attempt"] == good.id)
    assert row["files"] == {}
    assert row["prompt"] is row["reply"] is None
    assert row["reason"] == "revoked"
    assert row["latency_us"] is None


def test_unknown_format_and_unwritable_file_are_refused(run, tmp_path):
    with pytest.raises(UserError, match=r"ends in \.jsonl or \.parquet"):
        write_rows(attempt_rows(run), tmp_path / "a.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_rows(attempt_rows(run), tmp_path / "file" / "a.jsonl")
