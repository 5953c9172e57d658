"""`evokernel tasks`: lists, filters, counts, audits."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_calls import Call

TEXT = """import torch
N = 64
class Model(torch.nn.Module):
    def forward(self, x): return {}
def get_inputs(): return [torch.randn(N, 24)]
"""
ONE = ("--workers", 1)
"""Process that looks at tasks: each loads PyTorch first, which takes longer."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/good.py").write_text(TEXT.format("torch.sin(x)"))
    (tmp_path / "mine/empty.py").write_text(TEXT.format("x * 0"))
    return tmp_path / "mine"


def test_a_listing_is_filtered(call: Call) -> None:
    rows = call("tasks", "level1", "--category", "pooling", "--json").json
    assert {row["category"] for row in rows} == {"pooling"}
    assert {row["level"] for row in call("tasks", "level1,level2", "--level", "2", "--json").json} == {2}
    assert call("tasks", "list", "level1/pooling", "--json").json == rows


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["level1", "--category", "poling"], "did you mean 'pooling'"),
        (["starter", "--level", "7"], "none of 16 tasks is of level 7; there are levels 1"),
        (["level9"], "did you mean 'level"),
    ],
)
def test_a_filter_that_leaves_nothing_says_what_there_is(call: Call, more: list[str], said: str) -> None:
    done = call("tasks", *more)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_counts(call: Call) -> None:
    rows = call("tasks", "count", "--json").json
    assert sum(row["tasks"] for row in rows) == 321
    assert {row["suite"] for row in rows} == {"attention", "level1", "level2", "level3", "mhc", "starter"}
    assert "321 tasks in 6 suites" in call("tasks", "count").out


def test_what_is_shown_of_a_task(call: Call) -> None:
    (shown,) = call("tasks", "show", "level2/linear_relu_divide", "--backend", "cpp", "--json").json
    assert (shown["level"], shown["category"], shown["dtype"], shown["accumulation"]) == (2, "fuse", "float32", "float32")
    assert shown["terms"] > 1
    assert shown["memory"] >= shown["bytes"] / 2
    assert set(shown["families"]) >= {"matmul", "activation"}
    assert "sums of up to" in call("tasks", "show", "level2/linear_relu_divide", "--backend", "cpp").out


def test_an_audit_tells_sound_tasks_from_others(call: Call, folder: Path) -> None:
    done = call("tasks", "audit", str(folder), *ONE)
    assert done.code == 1
    assert "mine/empty: vacuous: zeros (bench, small, held-out)" in done.out
    assert "mine/good" not in done.out
    rows = {row["id"]: row for row in call("tasks", "audit", str(folder / "good.py"), *ONE, "--json").json}
    assert rows["mine/good"]["flaws"] == []
    loading = call("tasks", "audit", str(folder / "empty.py"), *ONE, "--loading")
    assert loading.code == 0
    assert "sound" not in loading.out
