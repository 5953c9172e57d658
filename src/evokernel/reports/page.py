"""One self-contained page of a run. Whatever a kernel or a model wrote is escaped; the page loads and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.core.config import write_toml
from evokernel.core.records import Attempt
from evokernel.core.run import Run, atomic_write
from evokernel.reports import formatting, metrics, tables
from evokernel.reports.figures import draw_all
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Valued:
    """A memory item and what it turned out to be worth."""

    id: str
    kind: str
    title: str
    q1: float | None
    visits1: int
    q2: float | None
    visits2: int


def write_report(run: Run, attempts: Sequence[Attempt], values: Sequence[Valued] | None, out: Path | None = None) -> Path:
    """The page to `out`, with its plots beside it; to the run's folder by default. `values` None: the bank could not be asked."""
    path = out or run.folder / "report.html"
    if path.is_dir():
        path = path / "report.html"
    found = metrics.of_run(run, attempts)
    plots = path.with_name(f"{path.stem}-plots") if out else run.folder / "plots"
    html = render(run, attempts, values, draw_all(found, attempts, plots))
    atomic_write(path, html)
    return path


def render(run: Run, attempts: Sequence[Attempt], values: Sequence[Valued] | None, plots: Sequence[Plot]) -> str:
    """The page as text."""
    from markupsafe import Markup

    found = metrics.of_run(run, attempts)
    return template("report.html.j2").render(
        config=run.config,
        backend=formatting.backend(run.config.plugin_name("backend"), run.facts),
        settings=write_toml(run.config.model_dump(mode="json")),
        facts=run.environment_summary(),
        totals=tables.totals(found, metrics.span_s(attempts), "first to last attempt"),
        operators=tables.operators(found),
        others=[table for table in (tables.categories(found), tables.fast(found), tables.failures(found)) if table.rows],
        values=None if values is None else value_table(values),
        plots=[(plot, Markup(plot.svg)) for plot in plots],
        kernels=[kernel(tried) for tried in found],
        clock=formatting.clock_label(metrics.clocks(attempts)),
    )


def template(name: str) -> Template:
    """One of ours; whatever is put into it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def value_table(values: Sequence[Valued], most: int = 25) -> Table:
    """The items worth most, by their better stage."""
    columns = (
        Column("memory"),
        Column("kind"),
        Column("Q1", "value"),
        Column("visits", "count"),
        Column("Q2", "value"),
        Column("visits", "count"),
        Column("id"),
    )
    learned = [value for value in values if value.visits1 or value.visits2]
    ordered = sorted(learned, key=lambda value: (-max(q for q in (value.q1, value.q2) if q is not None), value.id))
    rows = tuple((v.title, v.kind, v.q1, v.visits1, v.q2, v.visits2, v.id) for v in ordered[:most])
    note = f"{len(rows)} of {len(learned)} items that were shown and learned from, of {len(values)} in the bank, best first."
    return Table("Most useful memories", columns, rows, note)


def kernel(tried: Tried) -> dict[str, Any]:
    """One task's best kernel and its history, for the page."""
    best = tried.best
    return {
        "task": tried.task,
        "best": best,
        "outcome": tried.outcome,
        "fallen": [(attempt.id, tables.why(tried.finals[attempt.id].outcome)) for attempt in tried.fallen],
        "headline": headline(tried),
        "notes": formatting.tags(tried.task.tags),
        "attempts": [(number, attempt, verdict(attempt)) for number, attempt in enumerate(tried.attempts, start=1)],
    }


def headline(tried: Tried) -> str:
    """How far a task got, in a few words."""
    outcome = tried.outcome
    if not outcome:
        return f"not solved in {len(tried.attempts)} attempts"
    before = "" if tried.moved_us is None else f" (first {formatting.latency(tried.moved_us)})"
    figure = f"{formatting.latency(outcome.latency_us)}{formatting.noise(outcome.noise)}{before}"
    return f"{figure}, {formatting.ratio(outcome.speedup)} over {formatting.baseline_label([outcome.baseline_name])}, {formatting.clock_label([outcome.clock])}"


def verdict(attempt: Attempt) -> str:
    """What the judge found, on one line."""
    outcome = attempt.outcome
    if failure := outcome.failure:
        return f"{failure.gate}: {failure.reason}. {formatting.first_line(failure.detail, 160)}"
    label = formatting.estimate_note([outcome.clock])
    figures = (f"{formatting.latency(outcome.latency_us)}{formatting.noise(outcome.noise)}", label, formatting.ratio(outcome.speedup))
    return ", ".join(text for text in ("correct", *figures) if text)
