"""Renders a run as one self-contained HTML page. It escapes all text of kernels and models; the page loads and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.core import paths
from evokernel.core.config import format_toml
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.reports import delivery, formatting, hypothesis_table, metrics, step_table, tables, tool_table, variant_table
from evokernel.reports.figures import draw_run_plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.opportunities import opportunity_table
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class ItemValues:
    """A memory item with its learned values and their visit counts: Q1 for drafting, Q2 for refining."""

    id: str
    kind: str
    title: str
    q1: float | None
    visits1: int
    q2: float | None
    visits2: int


def write_report(run: Run, attempts: Sequence[Attempt], values: Sequence[ItemValues] | None, out: Path | None = None) -> Path:
    """Write the page to `out`, or to the run's folder, with its plots next to it. `values` is None if the bank cannot be read."""
    path = out or run.folder / "report.html"
    if path.is_dir():
        path = path / "report.html"
    results = metrics.collect_results(run, attempts)
    plots = path.with_name(f"{path.stem}-plots") if out else run.folder / "plots"
    html = render_page(run, attempts, values, draw_run_plots(results, attempts, plots))
    paths.write_text(path, html)
    return path


def render_page(run: Run, attempts: Sequence[Attempt], values: Sequence[ItemValues] | None, plots: Sequence[Plot]) -> str:
    """Return the page as HTML text."""
    from markupsafe import Markup

    results = metrics.collect_results(run, attempts)
    return load_template("report.html.j2").render(
        config=run.config,
        backend=formatting.format_backend(run.config.plugin_name("backend"), run.environment),
        settings=format_toml(run.config.model_dump(mode="json")),
        environment=run.environment_summary(),
        totals=tables.run_totals(results, metrics.elapsed_s(attempts), "first to last attempt"),
        operators=tables.operator_table(results),
        other_tables=other_tables(results),
        values=None if values is None else build_value_table(values),
        plots=[(plot, Markup(plot.svg)) for plot in plots],
        kernels=[kernel_entry(result) for result in results],
        clock=formatting.clock_label(metrics.clock_names(attempts)),
    )


def other_tables(results: Sequence[TaskResult]) -> list[Table]:
    """Return the tables of a run after that of its operators, without empty ones."""
    all_tables = (
        tables.category_table(results),
        tables.fast_p_table(results),
        tables.failure_table(results),
        step_table.steps_table(results),
        hypothesis_table.tested_table(results),
        variant_table.variants_table(results),
        tool_table.tool_table(results),
    )
    return [table for table in all_tables if table.rows]


def load_template(name: str) -> Template:
    """Load a template of this package; it escapes all values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def build_value_table(values: Sequence[ItemValues], max_rows: int = 25) -> Table:
    """Return the memory items with the highest values; an item counts by its better stage."""
    columns = (
        Column("memory item"),
        Column("kind"),
        Column("Q1", "value", explanation="learned value of the item for drafting"),
        Column("Q1 visits", "count", explanation="how often a draft with the item updated Q1"),
        Column("Q2", "value", explanation="learned value of the item for refining"),
        Column("Q2 visits", "count", explanation="how often a refinement with the item updated Q2"),
        Column("id"),
    )
    visited = [value for value in values if value.visits1 or value.visits2]
    ranking = sorted(visited, key=lambda value: (-max(q for q in (value.q1, value.q2) if q is not None), value.id))
    rows = tuple((v.title, v.kind, v.q1, v.visits1, v.q2, v.visits2, v.id) for v in ranking[:max_rows])
    bank = f"The bank holds {formatting.format_count(len(values), 'item')}."
    note = f"{len(rows)} of {formatting.format_count(len(visited), 'item')} with learned values, highest first. {bank}"
    return Table("Most useful memory items", columns, rows, note)


def kernel_entry(result: TaskResult) -> dict[str, Any]:
    """Return one task's best kernel and its history for the page."""
    best = result.best
    return {
        "task": result.task,
        "best": best,
        "best_name": formatting.format_attempt(best.id) if best else "",
        "outcome": result.best_outcome,
        "opportunities": opportunity_table(result.best_outcome) if result.best_outcome else None,
        "hypotheses": hypothesis_table.open_table(result),
        "failed_reevaluations": [
            (formatting.format_attempt(attempt.id), tables.failure_reason(result.reevaluations[attempt.id].outcome))
            for attempt in result.failed_reevaluations
        ],
        "headline": result_headline(result),
        "notes": result_notes(result),
        "attempts": [
            (number, attempt.stage.value, formatting.format_attempt(attempt.start_point or ""), outcome_line(attempt))
            for number, attempt in enumerate(result.attempts, start=1)
        ],
    }


def result_headline(result: TaskResult) -> str:
    """Return a task's result in a few words: its best latency, and its speed compared with the baseline."""
    outcome = result.best_outcome
    if not outcome:
        return f"not solved in {formatting.format_count(len(result.attempts), 'attempt')}"
    in_loop = "" if result.original_latency_us is None else f" (in the loop {formatting.format_latency(result.original_latency_us)})"
    latency = f"{formatting.format_latency(outcome.latency_us)}{formatting.format_noise(outcome.noise)}{in_loop}"
    speed = formatting.describe_speed(outcome.speedup, formatting.baseline_label([outcome.baseline_name]))
    return f"{latency}, {speed}, {formatting.clock_label([outcome.clock])}"


def result_notes(result: TaskResult) -> list[str]:
    """Return what limits a result: the task's tags, and a kernel that an export leaves out."""
    notes = formatting.explain_tags(result.task.tags)
    comparison = delivery.compare_speed(result.best_outcome)
    if result.best and not comparison.is_faster:
        notes.append(f"Not faster than the best baseline ({comparison.describe()}): evokernel export leaves it out unless --all is given.")
    return notes


def outcome_line(attempt: Attempt) -> str:
    """Return the verifier's outcome of one attempt, its focus and the generator's steps on one line."""
    outcome = attempt.outcome
    facts = [hypothesis_table.describe_focus(attempt), *(step_table.describe_step(step) for step in attempt.steps)]
    steps = "".join(f" · {fact}" for fact in facts if fact)
    if failure := outcome.failure:
        return f"{failure.gate}: {failure.reason}. {formatting.first_line(failure.detail, 160)}{steps}"
    latency = f"{formatting.format_latency(outcome.latency_us)}{formatting.format_noise(outcome.noise)}"
    speed = formatting.describe_speed(outcome.speedup, formatting.baseline_label([outcome.baseline_name])) if outcome.speedup else ""
    return ", ".join(text for text in ("correct", latency, formatting.estimate_note([outcome.clock]), speed) if text) + steps
