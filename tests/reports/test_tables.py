"""Tables and formatted figures."""

import pytest
import sample_run

from evokernel.core.records import Usage
from evokernel.reports import formatting, metrics, tables
from evokernel.reports.text_tables import format_report_table

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


def test_operator_table_equals_golden_text() -> None:
    table = tables.operator_table(metrics.group_by_task(*sample_run.make_sample()))
    assert format_report_table(table, title=False).rpartition("\n")[0] == GOLDEN
    assert "CPU time per core" in table.note


def make_estimated_results() -> list[metrics.TaskResult]:
    tasks, _ = sample_run.make_sample()
    outcomes = (sample_run.estimated_outcome(100.0), sample_run.estimated_outcome(50.0, bottleneck="step_overhead"))
    attempts = [sample_run.make_attempt(tasks[0], n, outcome) for n, outcome in enumerate(outcomes)]
    return metrics.group_by_task(tasks, [*attempts, sample_run.make_attempt(tasks[1], 0, sample_run.failed_outcome("build", "vmem"))])


def test_estimates_and_their_baseline_are_named() -> None:
    table = tables.operator_table(make_estimated_results())
    assert format_report_table(table, title=False).rpartition("\n")[0] == ESTIMATED
    assert table.caption.startswith("Times: estimate (schedule). round: ")
    assert (
        "XLA: XLA's own program for the reference; speed-up: latency of XLA / latency of best (above 1×: the kernel is faster); "
        in table.caption
    )
    assert "bound by: resource that limits the best kernel (step_overhead = fixed cost of a grid step)" in table.caption
    assert (
        dict(tables.run_totals(make_estimated_results(), 1.0))["speed compared with XLA"]
        == "geometric mean 2.00× faster than XLA, 1 solved task"
    )
    assert tables.fast_p_table(make_estimated_results()).note == "Share of tasks whose best kernel is more than p times as fast as XLA."


def test_mixed_baselines_have_no_common_name() -> None:
    tasks, _ = sample_run.make_sample()
    attempts = [
        sample_run.make_attempt(tasks[0], 0, sample_run.estimated_outcome(50.0)),
        sample_run.make_attempt(tasks[1], 0, sample_run.passed_outcome(50.0)),
    ]
    results = metrics.group_by_task(tasks, attempts)
    assert [column.name for column in tables.operator_table(results).columns if column.name in ("XLA", "PyTorch eager", "baseline")] == [
        "baseline"
    ]
    assert "speed compared with PyTorch eager, XLA" in dict(tables.run_totals(results, 1.0))


@pytest.mark.parametrize(("columns", "dropped_columns"), [(120, []), (86, ["gates"]), (74, ["gates", "round", "first"])])
def test_narrow_terminal_drops_columns(columns: int, dropped_columns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.reports.text_tables.terminal_width", lambda: columns)
    text = format_report_table(tables.operator_table(make_estimated_results()), title=False)
    assert max(map(len, text.splitlines())) <= columns
    head, words_below = text.partition("─")[0], " ".join(text.rpartition("Times: ")[2].split())
    assert [name for name in ("gates", "round", "first") if name not in head.replace("first→", "").split()] == dropped_columns
    assert [name for name in ("gates", "round") if f"{name}: " not in words_below] == dropped_columns[:2]
    assert all(name in head for name in ("best", "XLA", "floor", "bound", "failures"))


def test_synthetic_times_are_labelled() -> None:
    tasks, _ = sample_run.make_sample()
    synthetic = sample_run.make_attempt(tasks[0], 0, sample_run.passed_outcome(5.0, clock="synthetic"))
    assert "synthetic (not measured)" in tables.operator_table(metrics.group_by_task(tasks, [synthetic])).note


def test_totals_show_round_one_in_brackets() -> None:
    lines = dict(tables.run_totals(metrics.group_by_task(*sample_run.make_sample()), 61.0))
    assert lines["compiled (CR)"] == "(round 1: 67 %) 100 %, 3 of 3 tasks"
    assert lines["correct (Acc)"] == "(round 1: 33 %) 67 %, 2 of 3 tasks"
    assert lines["first→best gain"] == "median 2.50×, middle half 1.75× to 3.25×"
    assert lines["time"] == "1 min 01 s"
    assert lines["cost"] == "none (no model was called)"


def test_totals_without_attempts_have_no_zeros() -> None:
    lines = dict(tables.run_totals(metrics.group_by_task(sample_run.make_sample()[0], []), None))
    assert lines["first→best gain"] == formatting.UNKNOWN
    assert formatting.UNKNOWN in lines["speed compared with the baseline"]
    assert lines["time"] == "not measured"


def test_category_and_failure_tables() -> None:
    results = metrics.group_by_task(*sample_run.make_sample())
    assert [row[:4] for row in tables.category_table(results).rows] == [("activation", 1, 1, 1), ("matmul", 1, 1, 0), ("softmax", 1, 1, 1)]
    assert tables.failure_table(results).rows[0] == ("mismatch", 3, 2)
    assert tables.format_failures(sample_run.make_sample()[1], max_reasons=1) == "mismatch 3, +3"


def test_names_are_shortened_only_within_one_suite() -> None:
    assert tables.shorten_task_names(["a/x", "a/y"]) == {"a/x": "x", "a/y": "y"}
    assert tables.shorten_task_names(["a/x", "b/x"]) == {"a/x": "a/x", "b/x": "b/x"}


@pytest.mark.parametrize(
    ("us", "text"),
    [(None, "–"), (0.123, "0.12 µs"), (9.996, "10.0 µs"), (412.4, "412 µs"), (999.9, "1.00 ms"), (4120.0, "4.12 ms"), (2.5e6, "2.50 s")],
)
def test_latency_has_three_digits_and_a_unit(us: float | None, text: str) -> None:
    assert formatting.format_latency(us) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (41, "41 s"), (290, "4 min 50 s"), (7384, "2 h 03 min"), (None, "not measured")]
)
def test_duration_has_units_a_person_reads(seconds: float | None, text: str) -> None:
    assert formatting.format_duration(seconds) == text


def test_backend_format_names_the_chip() -> None:
    assert formatting.format_backend("pallas", {"versions": {"chip": "v6e"}}) == "pallas (v6e)"
    assert formatting.format_backend("cpp", {"versions": {}, "hardware": {}}) == formatting.format_backend("cpp", {}) == "cpp"


def test_cost_format() -> None:
    assert formatting.format_cost(Usage()) == "none (no model was called)"
    assert formatting.format_cost(Usage(model="m", calls=1)) == "not reported"
    unpriced = Usage(model="m", calls=2, input_tokens=12_000, output_tokens=345)
    assert formatting.format_cost(unpriced) == "price not known, 12,000 input and 345 output tokens"
    assert formatting.format_cost(sample_run.make_usage(0.25)) == "$0.2500"
