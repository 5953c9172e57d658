"""Shows a run from the first attempt to the report, for `run` and `resume`: progress, interrupts, tables, the next step."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Protocol

from evokernel.app.run_lifecycle import exit_code, resume_command, run_to_completion, stop_on_interrupt
from evokernel.app.run_progress import AttemptDisplay, Progress, show_record
from evokernel.cli.heartbeat import announce_wait
from evokernel.cli.output import format_pairs, print_json, print_text
from evokernel.cli.progress import PlainDisplay
from evokernel.cli.report import write_report_page
from evokernel.core.labels import format_count
from evokernel.core.records import Attempt
from evokernel.engine.loop import Engine
from evokernel.reports import metrics, tables
from evokernel.reports.delivery import compare_speed
from evokernel.reports.next_steps import terminal_steps
from evokernel.reports.summary import summarize_run
from evokernel.reports.text_tables import format_report_table


class Display(AttemptDisplay, Protocol):
    """Shows the progress of a run."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def show_interrupt(self, text: str) -> None: ...


def display_run(engine: Engine, plain: bool, as_json: bool, fail_under: float = 0) -> int:
    """Run the engine until it is finished or interrupted; show its progress and its results, and return the exit code."""
    run = engine.run
    recorded_ids = {attempt.id for attempt in run.attempts()}
    progress = Progress(run.tasks, run.config, resumed_attempts=len(recorded_ids))
    engine.notify = progress.set_phase
    with make_display(progress, plain, as_json) as display, closing(run_to_completion(engine)) as records:
        on_stop, on_abort = partial(show_stop, display), partial(show_abort, display, engine)
        with stop_on_interrupt(engine, lambda: progress.attempts_in_flight, on_stop, on_abort):
            attempts = []
            for record in records:
                show_record(record, progress, display, recorded_ids)
                if isinstance(record, Attempt):
                    attempts.append(record)
            progress.notice = ""
    results = metrics.collect_results(run, attempts)
    print_results(engine, attempts, results, progress, as_json)
    solved_share = sum(result.is_solved for result in results) / len(results) if results else 0.0
    if solved_share < fail_under:
        print_text(f"{solved_share:.0%} of the tasks have a correct kernel, less than --fail-under {fail_under:g}", err=True)
    return exit_code(engine, solved_share, fail_under)


def show_stop(display: Display, attempts_in_flight: int) -> None:
    """Tell the user that the run finishes the attempts in flight."""
    display.show_interrupt(f"Finishing {format_count(attempts_in_flight, 'attempt')} in flight; press Ctrl-C again to abort")


def show_abort(display: Display, engine: Engine) -> None:
    """Restore the terminal and tell the user how to resume; safe in a signal handler."""
    display.__exit__(KeyboardInterrupt, None, None)
    os.write(2, f"Aborted. Resume with: {resume_command(engine.run.folder)}\n".encode())


def make_display(progress: Progress, plain: bool, as_json: bool) -> Display:
    """The live display on a terminal, plain lines elsewhere; plain lines go to stderr if stdout carries JSON."""
    if plain or as_json or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainDisplay(progress, sys.stderr if as_json else sys.stdout)
    from evokernel.cli.live_display import LiveDisplay

    return LiveDisplay(progress)


def print_results(
    engine: Engine, attempts: list[Attempt], results: Sequence[metrics.TaskResult], progress: Progress, as_json: bool
) -> None:
    """Write the report, print the final tables and the next step. Raises UserError at the end if the report cannot be written."""
    run, seconds = engine.run, progress.elapsed_s
    with announce_wait("writing the report"):
        report = write_report_page(run, attempts)
    if as_json:
        print_json(summarize_run(run, attempts, seconds, report.path))
    else:
        print_text(f"\n{format_report_table(tables.operator_table(results), title=False)}\n")
        label = "time (this session)" if progress.resumed_attempts else "time"
        rows = [*tables.run_totals(results, seconds, label), ("report", str(report.path or "not written"))]
        print_text(format_pairs(rows))
        has_kernels = any(compare_speed(result.best_outcome).is_faster for result in results)
        print_text("\n" + format_pairs(terminal_steps(run.folder, run.config.plugin_name("generator"), has_kernels)))
    if report.error:
        raise report.error
    if engine.stop.is_set():
        print_text(f"Stopped ({engine.stop_reason}). Resume with: {resume_command(run.folder)}", err=as_json)
