"""Runs an engine from the first attempt to the report, for `run` and `resume`: display, interrupts, re-evaluation, tables."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from evokernel.cli.output import format_pairs, print_json, print_text
from evokernel.cli.progress import PlainDisplay, Progress, TaskProgress
from evokernel.cli.report import format_report_table, write_report_page
from evokernel.core.errors import InfraError, UserError
from evokernel.core.labels import format_count
from evokernel.core.records import Attempt
from evokernel.engine.final_eval import INTERRUPTED, pending_reevaluations, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.reports import metrics, tables
from evokernel.reports.summary import summarize_run

INTERRUPTED_EXIT = 130
DUPLICATE_SIGNAL_S = 0.3
STOP_BYTE = b"\0"  # not a signal number


class Display(Protocol):
    """Shows the progress of a run."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None: ...

    def show_note(self, text: str) -> None: ...

    def show_interrupt(self, text: str) -> None: ...


def run_to_completion(engine: Engine, plain: bool, as_json: bool) -> int:
    """Run the engine until it is finished or interrupted; print the tables, write the report and return the exit code."""
    run = engine.run
    recorded_ids = {attempt.id for attempt in run.attempts()}
    progress = Progress(run.tasks, run.config, resumed_attempts=len(recorded_ids))
    attempts: list[Attempt] = []
    engine.notify = progress.set_phase
    try:
        with make_display(progress, plain, as_json) as display, stop_on_interrupt(engine, progress, display):
            for attempt in engine.make_attempts():
                attempts.append(attempt)
                task_progress = progress.add_attempt(attempt)
                if attempt.id not in recorded_ids:
                    display.show_attempt(attempt, task_progress)
            reevaluate_best_kernels(engine, progress, display)
    except InfraError as error:
        raise InfraError(f"{str(error).rstrip('.')}. Once fixed, resume with: {resume_command(run.folder)}") from error
    finally:
        engine.executor.close()
    return report_results(engine, attempts, progress, as_json)


def reevaluate_best_kernels(engine: Engine, progress: Progress, display: Display) -> None:
    """Re-evaluate the best kernels at the end of a run, unless the user interrupted it."""
    if engine.stop_reason == INTERRUPTED:
        return
    if count := len(pending_reevaluations(engine.run)):
        display.show_note(f"Re-evaluating {format_count(count, 'best kernel')}")
        for final in reevaluate_best(engine):
            if text := progress.describe_reevaluation(final):
                display.show_note(text)
        progress.notice = ""


def make_display(progress: Progress, plain: bool, as_json: bool) -> Display:
    """The live display on a terminal, plain lines elsewhere; plain lines go to stderr if stdout carries JSON."""
    if plain or as_json or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainDisplay(progress, sys.stderr if as_json else sys.stdout)
    from evokernel.cli.live_display import LiveDisplay

    return LiveDisplay(progress)


@contextmanager
def stop_on_interrupt(engine: Engine, progress: Progress, display: Display) -> Iterator[None]:
    """The first Ctrl-C finishes the attempts in flight; the second ends the process. Both leave a run that can be resumed."""
    requested_at = [0.0]

    def stop() -> None:
        if engine.stop.is_set() and time.monotonic() - requested_at[0] < DUPLICATE_SIGNAL_S:
            return  # one request that arrived twice: for this process and for its group
        requested_at[0] = time.monotonic()
        if engine.stop.is_set():
            display.__exit__(KeyboardInterrupt, None, None)
            os.write(2, f"Aborted. Resume with: {resume_command(engine.run.folder)}\n".encode())
            os._exit(INTERRUPTED_EXIT)  # threads of attempts in flight cannot be stopped
        count = progress.attempts_in_flight
        engine.stop_reason = INTERRUPTED
        engine.stop.set()
        display.show_interrupt(f"Finishing {format_count(count, 'attempt')} in flight; press Ctrl-C again to abort")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handle_signals((signal.SIGINT, signal.SIGTERM), stop):
        yield


@contextmanager
def handle_signals(numbers: tuple[int, ...], handler: Callable[[], None]) -> Iterator[None]:
    """Call `handler` at once from a listener thread: Python's own handlers wait until the main thread runs bytecode again."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)

    def listen() -> None:
        while (byte := os.read(read_fd, 1)) != STOP_BYTE:
            if byte[0] in numbers:
                handler()

    listener = threading.Thread(target=listen, daemon=True, name="signals")
    previous_handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
    previous_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, previous in previous_handlers.items():
            signal.signal(number, previous)
        os.write(write_fd, STOP_BYTE)
        listener.join()
        os.close(read_fd)
        os.close(write_fd)


def report_results(engine: Engine, attempts: list[Attempt], progress: Progress, as_json: bool) -> int:
    """Print the final tables and the next step; return the exit code."""
    run, seconds = engine.run, progress.elapsed_s
    report_path, error_to_raise = None, None
    try:
        report_path = write_report_page(run, attempts)
    except UserError as error:  # for example a full disk: print the tables anyway
        error_to_raise = error
    if as_json:
        print_json(summarize_run(run, attempts, seconds, report_path))
    else:
        results = metrics.collect_results(run, attempts)
        print_text(f"\n{format_report_table(tables.operator_table(results), title=False)}\n")
        label = "time (this session)" if progress.resumed_attempts else "time"
        rows = [*tables.run_totals(results, seconds, label), ("report", str(report_path or "not written"))]
        next_step = [("next step", f"evokernel export {run.folder}")] if any(result.is_solved for result in results) else []
        print_text(format_pairs([*rows, *next_step]))
    if error_to_raise:
        raise error_to_raise
    if not engine.stop.is_set():
        return 0
    print_text(f"Stopped ({engine.stop_reason}). Resume with: {resume_command(run.folder)}", err=as_json)
    return INTERRUPTED_EXIT if engine.stop_reason == INTERRUPTED else 0


def resume_command(folder: Path) -> str:
    """The command line that resumes a run."""
    return f"evokernel resume {folder}"
