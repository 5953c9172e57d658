"""Tables and figures as people read them."""

import made_run
import pytest

from evokernel.cli.report import show
from evokernel.core.records import Usage
from evokernel.reports import formatting, metrics, tables

GOLDEN = """\
task     round  first correct     best  PyTorch eager  speed-up  first→best  floor  bound by  gates  failures
───────  ─────  ─────────────  ───────  ─────────────  ────────  ──────────  ─────  ────────  ─────  ───────────────────────
relu         1         100 µs  25.0 µs         100 µs     4.00×       4.00×      –  memory    2/3    crash
softmax      3         200 µs   200 µs         100 µs     0.50×       1.00×      –  memory    1/3    compile_error, mismatch
matmul       –              –        –              –         –           –      –  –         0/3    mismatch 2, no_code"""
ESTIMATED = """\
task     round  first correct     best     XLA  speed-up  first→best    floor  bound by       gates  failures
───────  ─────  ─────────────  ───────  ──────  ────────  ──────────  ───────  ─────────────  ─────  ────────
relu         1         100 µs  50.0 µs  100 µs     2.00×       2.00×  20.0 µs  step_overhead  2/2
softmax      –              –        –       –         –           –        –  –              0/1    vmem
matmul       –              –        –       –         –           –        –  –              0/0"""


def test_the_table_of_operators() -> None:
    table = tables.operators(metrics.by_task(*made_run.made()))
    assert show(table, title=False).rpartition("\n")[0] == GOLDEN
    assert "CPU time per core" in table.note


def estimated() -> list[metrics.Tried]:
    tasks, _ = made_run.made()
    found = (made_run.estimated(100.0), made_run.estimated(50.0, bottleneck="step_overhead"))
    attempts = [made_run.attempt(tasks[0], n, outcome) for n, outcome in enumerate(found)]
    return metrics.by_task(tasks, [*attempts, made_run.attempt(tasks[1], 0, made_run.failed("build", "vmem"))])


def test_estimates_and_their_baseline_are_named() -> None:
    table = tables.operators(estimated())
    assert show(table, title=False).rpartition("\n")[0] == ESTIMATED
    assert table.caption.startswith("Times: estimate (schedule). round: ")
    assert "XLA: XLA's own program for the reference; speed-up: XLA over best; " in table.caption
    assert dict(tables.totals(estimated(), 1.0))["speed-up over XLA"].startswith("geometric mean 2.00×")
    assert tables.fast(estimated()).title == "Faster than p times XLA (fast_p)"


def test_different_baselines_are_not_given_one_name() -> None:
    tasks, _ = made_run.made()
    mixed = [made_run.attempt(tasks[0], 0, made_run.estimated(50.0)), made_run.attempt(tasks[1], 0, made_run.passed(50.0))]
    found = metrics.by_task(tasks, mixed)
    assert [column.name for column in tables.operators(found).columns if column.name in ("XLA", "PyTorch eager", "baseline")] == [
        "baseline"
    ]
    assert "speed-up over PyTorch eager, XLA" in dict(tables.totals(found, 1.0))


@pytest.mark.parametrize(("columns", "left_out"), [(120, []), (86, ["gates"]), (74, ["gates", "round", "first"])])
def test_a_narrow_terminal_gets_fewer_columns(columns: int, left_out: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.cli.output.room", lambda: columns)
    monkeypatch.setattr("evokernel.cli.report.room", lambda: columns)
    text = show(tables.operators(estimated()), title=False)
    assert max(map(len, text.splitlines())) <= columns
    head, words_below = text.partition("─")[0], " ".join(text.rpartition("Times: ")[2].split())
    assert [name for name in ("gates", "round", "first") if name not in head.replace("first→", "").split()] == left_out
    assert [name for name in ("gates", "round") if f"{name}: " not in words_below] == left_out[:2]
    assert all(name in head for name in ("best", "XLA", "floor", "bound", "failures"))


def test_synthetic_times_are_called_so() -> None:
    tasks, _ = made_run.made()
    made_up = made_run.attempt(tasks[0], 0, made_run.passed(5.0, clock="synthetic"))
    assert "synthetic (not measured)" in tables.operators(metrics.by_task(tasks, [made_up])).note


def test_totals_give_round_one_in_brackets() -> None:
    lines = dict(tables.totals(metrics.by_task(*made_run.made()), 61.0))
    assert lines["compiled (CR)"] == "(round 1: 67 %) 100 %, 3 of 3 tasks"
    assert lines["correct (Acc)"] == "(round 1: 33 %) 67 %, 2 of 3 tasks"
    assert lines["first→best gain"] == "median 2.50×, middle half 1.75× to 3.25×"
    assert lines["time"] == "1 min 01 s"
    assert lines["cost"] == "none (no model was called)"


def test_totals_of_nothing_hold_no_noughts_for_what_was_not_measured() -> None:
    lines = dict(tables.totals(metrics.by_task(made_run.made()[0], []), None))
    assert lines["first→best gain"] == formatting.UNKNOWN
    assert formatting.UNKNOWN in lines["speed-up over the baseline"]
    assert lines["time"] == "not measured"


def test_categories_and_reasons() -> None:
    found = metrics.by_task(*made_run.made())
    assert [row[:4] for row in tables.categories(found).rows] == [("activation", 1, 1, 1), ("matmul", 1, 1, 0), ("softmax", 1, 1, 1)]
    assert tables.failures(found).rows[0] == ("mismatch", 3, 2)
    assert tables.reasons(made_run.made()[1], most=1) == "mismatch 3, +3"


def test_names_are_short_only_where_all_share_a_suite() -> None:
    assert tables.short_names(["a/x", "a/y"]) == {"a/x": "x", "a/y": "y"}
    assert tables.short_names(["a/x", "b/x"]) == {"a/x": "a/x", "b/x": "b/x"}


@pytest.mark.parametrize(
    ("us", "text"),
    [(None, "–"), (0.123, "0.12 µs"), (9.996, "10.0 µs"), (412.4, "412 µs"), (999.9, "1.00 ms"), (4120.0, "4.12 ms"), (2.5e6, "2.50 s")],
)
def test_latency(us: float | None, text: str) -> None:
    assert formatting.latency(us) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (41, "41 s"), (290, "4 min 50 s"), (7384, "2 h 03 min"), (None, "not measured")]
)
def test_duration(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


def test_a_backend_for_a_chip_names_it() -> None:
    assert formatting.backend("pallas", {"versions": {"chip": "v6e"}}) == "pallas (v6e)"
    assert formatting.backend("cpp", {"versions": {}, "hardware": {}}) == formatting.backend("cpp", {}) == "cpp"


def test_cost_in_words() -> None:
    assert formatting.cost(Usage()) == "none (no model was called)"
    assert formatting.cost(made_run.with_usage(None)) == "not reported"
    assert formatting.cost(made_run.with_usage(0.25)) == "$0.2500"
