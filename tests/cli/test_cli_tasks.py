"""`evokernel tasks`: list, filters, count and lint."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_helpers import Call

TEXT = """import torch
N = 64
class Model(torch.nn.Module):
    def forward(self, x): return {}
def get_inputs(): return [torch.randn(N, 24)]
"""
ONE = ("--workers", 1)
"""One worker process: each loads PyTorch first, which takes longer than the check."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/good.py").write_text(TEXT.format("torch.sin(x)"))
    (tmp_path / "mine/empty.py").write_text(TEXT.format("x * 0"))
    return tmp_path / "mine"


def test_list_is_filtered(call: Call) -> None:
    rows = call("tasks", "level1", "--category", "pooling", "--json").json
    assert {row["category"] for row in rows} == {"pooling"}
    assert {row["level"] for row in call("tasks", "level1,level2", "--level", "2", "--json").json} == {2}
    assert call("tasks", "list", "level1/pooling", "--json").json == rows


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["starter/argmax:backward"], "cannot be taken backward"),
        (["level1", "--category", "poling"], "did you mean 'pooling'"),
        (["starter", "--level", "7"], "none of 16 tasks has level 7. Levels: 1"),
        (["level9"], "did you mean 'level"),
    ],
)
def test_filter_without_match_lists_the_choices(call: Call, more: list[str], message: str) -> None:
    result = call("tasks", *more)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_count_by_suite_and_category(call: Call) -> None:
    rows = call("tasks", "count", "--json").json
    assert sum(row["tasks"] for row in rows) == 361
    assert {row["suite"] for row in rows} == {"attention", "gradients", "level1", "level2", "level3", "mhc", "starter"}
    assert "361 tasks in 7 suites" in call("tasks", "count").out


def test_show_prints_the_requirements_of_a_task(call: Call) -> None:
    (record,) = call("tasks", "show", "level2/linear_relu_divide", "--backend", "cpp", "--json").json
    assert (record["level"], record["category"], record["dtype"], record["accumulation"]) == (2, "fuse", "float32", "float32")
    assert record["reduction_length"] > 1
    assert record["peak_bytes"] >= record["bytes"] / 2
    assert set(record["families"]) >= {"matmul", "activation"}
    shown = call("tasks", "show", "level2/linear_relu_divide", "--backend", "cpp").out
    assert "sums of up to" in shown
    assert "of memory (estimate) and lets a kernel run for 60 s" in shown


def test_memory_of_a_verification_in_parts_does_not_grow_with_the_inputs(call: Call) -> None:
    (whole,) = call("tasks", "show", "level1/hardtanh", "--backend", "cpp", "--size", "full", "--json").json
    (in_parts,) = call("tasks", "show", "level1/hardtanh", "--backend", "ascendc", "--size", "full", "--json").json
    assert in_parts["verification_bytes"] < whole["bytes"] < whole["verification_bytes"]


def test_time_of_a_verification_in_parts_is_estimated_with_a_range(call: Call) -> None:
    def show(name: str, backend: str) -> dict[str, float]:
        (record,) = call("tasks", "show", name, "--backend", backend, "--size", "full", "--json").json
        times: dict[str, float] = record["verification_cpu_s"]
        return times

    simple, convolution = show("starter/scale_shift", "pallas"), show("starter/conv2d", "pallas")
    assert 1 < simple["least"] < simple["estimate"] < simple["most"] < 60
    assert simple["estimate"] < convolution["estimate"]
    assert show("starter/scale_shift", "ascendc")["estimate"] < show("starter/matmul", "ascendc")["estimate"]
    assert show("starter/scale_shift", "cpp") is None, "not measured"
    shown = call("tasks", "show", "starter/scale_shift", "--backend", "pallas", "--size", "full").out
    assert f"and {simple['estimate']:.2g} s of CPU, in 9 of 10 cases {simple['least']:.2g} to {simple['most']:.2g} s (estimate)" in shown


@pytest.mark.slow(one_in=5)
def test_lint_finds_vacuous_tasks(call: Call, folder: Path) -> None:
    result = call("tasks", "lint", str(folder), *ONE)
    assert result.code == 1
    assert "mine/empty: vacuous: zeros (bench, small, held-out)" in result.out
    assert "mine/good" not in result.out
    rows = {row["id"]: row for row in call("tasks", "lint", str(folder / "good.py"), *ONE, "--json").json}
    assert rows["mine/good"]["issues"] == []
    load_only = call("tasks", "lint", str(folder / "empty.py"), *ONE, "--load-only")
    assert load_only.code == 0
    assert "no issues" not in load_only.out
