"""The page Compare: runs side by side, paired by task, with confidence intervals."""

from __future__ import annotations

from evokernel.core.errors import UserError
from evokernel.experiments.run_comparison import ComparedRun, compare_runs, pairs_table, runs_table, tasks_table
from evokernel.reports.next_steps import NextStep, quote_command
from evokernel.web import charts
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail
from evokernel.web.summary import summarize_run

MAX_CHOICES = 200
"""Runs that the form offers."""


def requested_runs(run_index: RunIndex, query: Query) -> list[RunTail]:
    """The runs that the URL names; raises UserError for an unknown one."""
    return [run_index.get(key) for key in dict.fromkeys(filter(None, query.get("runs", "").split(",")))]


def compare_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """The comparison of the runs that the URL names, or a form that asks for them."""
    runs = requested_runs(run_index, query)
    keys = [run.key for run in runs]
    message, tables = "", []
    if runs:
        try:
            comparison = compare_runs([compared_run(run) for run in runs])
            tables = [runs_table(comparison), pairs_table(comparison), tasks_table(comparison)]
        except UserError as error:
            message = str(error)
    rows = [summarize_run(run) for run in runs] if tables else []
    drawn = [chart for measure in ("correct", "reward") if (chart := charts.comparison_chart(rows, measure))] if rows else []
    steps = [NextStep("The same in the terminal", quote_command("compare", *(run.folder for run in runs)))] if tables else []
    choices = sorted({*keys, *sorted(run_index.runs, reverse=True)[:MAX_CHOICES]}, reverse=True)
    parts = {
        "head": render_part(
            "compare_head.html.j2", links, keys=keys, choices=choices, message=message, steps=steps, is_open=True, is_chosen=bool(tables)
        ),
        "tables": render_part("compare_tables.html.j2", links, tables=tables),
        "charts": render_part("chart.html.j2", links, charts=drawn),
    }
    return Page("Compare", "compare", {"runs": ",".join(keys)}, parts, layout="compare.html.j2")


def compared_run(run_tail: RunTail) -> ComparedRun:
    """A run as the comparison takes it; raises UserError if it cannot be read."""
    if run_tail.run is None:
        raise UserError(f"run '{run_tail.key}' cannot be read: {'; '.join(run_tail.problems)}")
    return ComparedRun(run_tail.key, run_tail.run, run_tail.results, summarize_run(run_tail).state)


def compare_version(run_index: RunIndex, query: Query) -> object:
    """A value that changes when one of the runs changes, or when there are other runs to choose."""
    return tuple(run.version for run in requested_runs(run_index, query)), len(run_index.runs)
