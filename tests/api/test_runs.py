"""From a run to data frames, a comparison, its best kernel, an export and a model that uses it."""

from __future__ import annotations

import asyncio
import html
import io
import math
import sys
from pathlib import Path

import pytest
import sample_run
from matplotlib.container import ErrorbarContainer
from rich.console import Console

import evokernel as ek
from evokernel.api import progress
from evokernel.core.config import resolve_config
from evokernel.core.records import Candidate
from evokernel.core.run import Run

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.toolchain
TASK = """
import torch


ROWS, COLS = 64, 48


class Model(torch.nn.Module):
    def forward(self, x):
        return {call}


def get_inputs():
    return [torch.randn(ROWS, COLS)]
"""
CALLS = {"tanh": "torch.tanh(x)", "sigmoid": "torch.sigmoid(x)", "fused": "torch.tanh(x) * torch.sigmoid(x)"}
FORMULAS = {"tanh": "std::tanh(x[i])", "sigmoid": "1 / (1 + std::exp(-x[i]))", "fused": "std::tanh(x[i]) / (1 + std::exp(-x[i]))"}
KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {{
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = {formula};
}}
"""
SPEEDUPS = {"tanh": 2.0, "sigmoid": 0.5, "fused": 3.0}
SETTINGS = {"backend": "cpp", "clock": "synthetic", "protocol": "paper", "fresh": True, "workers": 1, "quiet": True}


class SmallModel(torch.nn.Module):
    """Calls both operators, one of them twice and once in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.linear(x))
        return (torch.sigmoid(y + x) + x).tanh_()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ops")
    for name, call in CALLS.items():
        (folder / f"{name}.py").write_text(TASK.format(call=call))
    return folder


@pytest.fixture(scope="module")
def real_run(files, tmp_path_factory):
    """A run of template_search on cpp."""
    return ek.run([files / "tanh.py"], budget=1, folder=tmp_path_factory.mktemp("runs") / "real", **SETTINGS)


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    """Two recorded runs, in which tanh and fused are faster than their baseline and sigmoid is slower."""
    folder = tmp_path_factory.mktemp("runs")
    return record_run(folder / "a", files, SPEEDUPS, "value"), record_run(folder / "b", files, {"tanh": 1.5, "sigmoid": 0.25}, "passk")


def record_run(folder: Path, files: Path, speedups: dict[str, float], policy: str) -> ek.Run:
    """Write a run in which one kernel passed every gate for each task."""
    tasks = {name: ek.task(files / f"{name}.py").data for name in speedups}
    run = Run.create(
        folder, resolve_config(None, backend="cpp", policy=policy, id=f"run-{folder.name}", budget=1), list(tasks.values()), {}
    )
    for name, task in tasks.items():
        candidate = Candidate(backend="cpp", files={"kernel.cpp": KERNEL.format(formula=FORMULAS[name])})
        outcome = sample_run.passed_outcome(100.0, 100.0 * speedups[name])
        run.journal.append(sample_run.make_attempt(task, 0, outcome, candidate=candidate, run=run.config.id))
    return ek.Run(run)


def set_speedup(run: ek.Run, speedup: float) -> None:
    """Rewrite a journal with a baseline that gives this speed-up, without a re-evaluation: a test must not depend on what is measured."""
    (run.folder / "finals.jsonl").unlink()
    (attempt,) = run.attempts
    run.data.journal.path.unlink()
    baseline = {"eager": tuple(us * speedup for us in attempt.outcome.samples_us)}
    run.data.journal.append(attempt.model_copy(update={"outcome": attempt.outcome.model_copy(update={"baseline_us": baseline})}))


def test_from_a_run_to_a_model_that_uses_its_kernel(real_run, runs, tmp_path):
    assert real_run.state == "finished"
    assert real_run.config.plugin_name("generator") == "template_search"
    set_speedup(real_run, 4.0)
    frame = ek.attempts_df([real_run, runs[0]])
    assert list(frame["speedup"]) == pytest.approx([4.0, *SPEEDUPS.values()])
    assert frame["verify_s"].min() >= 0
    values = ek.values_df(real_run)
    assert {"api", "practice", "trace"} <= set(values["kind"])
    assert len(ek.values_df(real_run.folder / "memory.db")) == len(values)
    assert ek.compare(runs[0], real_run).solved.interval.mean == 0
    assert real_run.best("tanh").export(tmp_path / "kernels").has_wrapper
    model, x = SmallModel(), torch.randn(64, 48)
    fast = ek.replace_operators(model, real_run, inputs=(x,), quiet=True)
    assert [one.task for one in ek.replacements(fast).replaced] == [real_run.tasks[0].id]
    assert ek.replacements(fast).max_error < 1e-5
    kernel, task = real_run.best("tanh"), real_run.tasks[0]
    assert ek.verify(kernel, task, settings={"clock": "synthetic", "protocol": "paper"}).correct


def test_run_has_tasks_attempts_and_tables(runs):
    first, _ = runs
    assert [task.id.rpartition("/")[2] for task in first.tasks] == ["tanh", "sigmoid", "fused"]
    assert [attempt.outcome.feasible for attempt in first.attempts] == [True] * 3
    assert len(first.results) == len(first.kernels) == 3
    assert first.summary()["feasible"] == 3
    for text in (repr(first), first._repr_html_()):
        assert "tanh" in text
        assert "2.00×" in text
    assert ek.open_run(first.folder).id == first.id
    assert "<html" in first.report(first.folder.parent / "page.html").read_text()


def test_frame_of_several_runs(runs):
    first, second = runs
    frame = ek.attempts_df([first, second.folder])
    assert list(frame["run"].unique()) == ["run-a", "run-b"]
    assert len(frame) == 5
    assert frame["correct"].all()
    assert frame["best"].all()
    assert frame["cost_usd"].isna().all()
    assert frame["input_tokens"].isna().all()
    assert frame["reevaluated_us"].isna().all()
    assert set(frame["policy"]) == {"value", "passk"}
    assert len(ek.attempts_df(first)) == 3
    assert list(ek.attempts_df([]).columns) == list(frame.columns)


def test_missing_pandas_is_one_line(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ek.UserError, match=r"pip install 'evokernel\[frames\]'"):
        ek.attempts_df(runs[0])


def test_comparison_has_intervals_a_table_and_a_plot(runs):
    comparison = ek.compare(*runs)
    assert comparison.solved.interval.mean == 0
    assert comparison.speed.interval.value_count == 2
    assert comparison.record()["runs"][0]["run"] == "a"
    assert "Compared with a, paired by task" in repr(comparison)
    assert "<table>" in comparison._repr_html_()
    axes = comparison.plot()
    assert [label.get_text().rpartition("/")[2] for label in axes.get_yticklabels()] == ["mean", "sigmoid", "tanh"]
    with pytest.raises(ek.UserError, match="named twice"):
        ek.compare(runs[0], runs[0])


def test_bounds_of_the_mean_are_drawn_if_six_tasks_are_compared(tmp_path):
    speedups = {f"op{number}": 1.0 + 0.1 * number for number in range(7)}
    tasks = [sample_run.make_task(name) for name in speedups]
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, gains in zip(folders, ([1.0] * 7, speedups.values()), strict=True):
        latencies = [100.0 / gain for gain in gains]
        attempts = [sample_run.make_attempt(one, 0, sample_run.passed_outcome(us)) for one, us in zip(tasks, latencies, strict=True)]
        sample_run.write_run(folder, tasks, attempts)
    comparison = ek.compare(*folders)
    mean = comparison.speed.interval.exp()
    assert 1.0 < mean.low < mean.mean < mean.high < 1.6
    assert mean.mean == pytest.approx(math.prod(speedups.values()) ** (1 / 7))
    axes = comparison.plot()
    (bars,) = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    (line,) = bars.lines[2]
    ((left, right),) = line.get_segments()
    assert (left[0], right[0]) == pytest.approx((mean.low, mean.high))
    assert left[1] == right[1] == [label.get_text() for label in axes.get_yticklabels()].index("mean")
    assert f"{mean.low:.2f}" in repr(comparison)
    assert f"{mean.high:.2f}" in comparison._repr_html_()


def test_all_results_look_the_same_as_text_in_rich_and_as_html(runs, tmp_path):
    first, _ = runs
    results = {
        "latency": first,
        "Mflop": ek.task("starter/softmax"),
        "paired by task": ek.compare(*runs),
        "2.00× slower than PyTorch eager": first.best("sigmoid").export(tmp_path / "out"),
    }
    for text, result in results.items():
        console = Console(record=True, width=200, file=io.StringIO())
        console.print(result)
        for shown in (repr(result), result._repr_html_(), console.export_text()):
            assert text in shown
            assert all(html.escape(table.title) in shown for table in result.tables())


def test_best_kernel_and_its_export(runs, tmp_path):
    first, _ = runs
    kernel = first.best("tanh")
    assert kernel.speedup == pytest.approx(2.0)
    assert kernel.is_faster
    assert list(kernel.files) == ["kernel.cpp"]
    assert "kernel.cpp" in kernel._repr_html_()
    exported = kernel.export(tmp_path / "out")
    assert [one.task for one in exported.kernels] == [kernel.task.id]
    assert (tmp_path / "out" / "pyproject.toml").is_file()
    assert "torch.ops.evokernel_cpp." in repr(exported)
    assert "ExportResult(" not in repr(exported)
    assert "2.00× faster than PyTorch eager" in exported._repr_html_()
    assert "Kept from earlier exports" in repr(first.best("fused").export(tmp_path / "out"))
    slower = first.best(first.tasks[1])
    assert not slower.is_faster
    assert slower.export(tmp_path / "slower").kernels[0].operator.endswith("sigmoid_slower")
    assert sorted(one.task.rpartition("/")[2] for one in first.export(tmp_path / "all").kernels) == ["fused", "tanh"]
    with pytest.raises(ek.UserError, match=r"this run has no task 'sigmod' \(did you mean 'sigmoid'\?\)"):
        first.best("sigmod")


def test_model_uses_the_faster_kernels_only(runs, capsys):
    model, x = SmallModel(), torch.randn(64, 48)
    fast = ek.replace_operators(model, runs[0])
    shown = capsys.readouterr().err
    assert "1 of 3 tasks have an operator in the model" in shown
    assert "not faster: 2.00× slower than PyTorch eager" in shown
    assert "the task is not a single torch call" in shown
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-5)
    (replaced,) = ek.replacements(fast).replaced
    assert replaced.task.endswith("/tanh")
    assert replaced.replaced_calls == 2
    assert type(fast) is SmallModel
    assert fast.state_dict().keys() == model.state_dict().keys()
    assert fast.linear.weight is model.linear.weight
    with pytest.raises(ek.UserError, match="did not return this model"):
        ek.replacements(model)


def test_report_of_a_model_in_which_nothing_is_replaced(runs, files, tmp_path):
    slower = record_run(tmp_path / "slower", files, {"sigmoid": 0.5}, "value")
    model = SmallModel()
    assert ek.replace_operators(model, slower, quiet=True) is model
    assert "0 of 1 tasks" in repr(ek.replacements(model))
    assert "not faster" in ek.replacements(model).not_replaced[0].reason


def test_existing_run_is_not_overwritten(runs):
    with pytest.raises(ek.UserError, match=r"already contains a run. Continue it with open_run\(.*\).resume\(\)"):
        ek.run("starter/softmax", backend="cpp", folder=runs[0].folder)


def test_calls_that_need_gradients_stay_torchs(runs):
    model, x = SmallModel(), torch.randn(64, 48)
    fast = ek.replace_operators(model, runs[0], quiet=True)
    fast(x).sum().backward()
    assert model.linear.weight.grad is not None
    (result,) = ek.replacements(fast).replaced
    assert result.replaced_calls == 0
    assert "call the model under torch.no_grad()" in repr(ek.replacements(fast))


def test_example_inputs_name_the_kernels_that_are_not_called(runs):
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x[:5])

    fast = ek.replace_operators(Other(), runs[0].folder, inputs=(torch.randn(64, 48),), quiet=True)
    report = ek.replacements(fast)
    assert report.replaced == []
    assert report.max_error == 0
    assert "does not call it with these shapes" in repr(report)
    with pytest.raises(ek.UserError, match="takes a PyTorch module"):
        ek.replace_operators(torch.tanh, runs[0])


@pytest.mark.slow(one_in=2)
def test_resume_and_run_from_an_event_loop(files, tmp_path):
    run = asyncio.run(ek.arun(files / "tanh.py", budget=1, folder=tmp_path / "run", **SETTINGS))
    assert len(run.attempts) == 1
    assert run.resume(2, quiet=True) is run
    assert len(run.attempts) == 2
    assert run.config.budget == 2
    values = ek.values_df(run)
    assert values["visits"].dropna().min() >= 1
    assert values["q"].notna().any()


def test_progress_is_shown_in_a_notebook_and_on_a_terminal(runs, capsys, monkeypatch):
    pages: list[str] = []

    class Handle:
        def update(self, page: object) -> None:
            pages.append(page.data)

    def display(page: object, display_id: bool) -> Handle:
        pages.append(page.data)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    state = progress.Progress(runs[0].data.tasks, runs[0].config)
    shown = progress.NotebookDisplay(state)
    lines = progress.LineDisplay(state)
    for attempt in runs[0].attempts:
        line = state.add_attempt(attempt)
        shown.show_attempt(attempt, line)
        lines.show_attempt(attempt, line)
    shown.close()
    assert "0 of 3 attempts" in pages[0]
    assert "3 of 3 attempts, 3 tasks with a correct kernel" in pages[-1]
    assert capsys.readouterr().err.startswith("[1/3] tanh  draft  ok")
    assert type(progress.make_display(state, quiet=True)) is progress.QuietDisplay
