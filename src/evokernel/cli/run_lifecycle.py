"""Drives an engine from the first attempt to the report, for `run` and `resume`."""

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

from evokernel.cli.output import emit, pairs, tell
from evokernel.cli.progress import Line, PlainDisplay, Progress
from evokernel.cli.report import show, write_page
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Attempt
from evokernel.engine.final_eval import BY_USER, pending, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.reports import metrics, tables
from evokernel.reports.summary import summary

INTERRUPTED = 130
TWICE_S = 0.3
DONE = b"\0"  # no signal's number


class Display(Protocol):
    """Shows a run while it goes on."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *trouble: object) -> None: ...

    def show(self, attempt: Attempt, line: Line) -> None: ...

    def note(self, text: str) -> None: ...

    def interrupt(self, text: str) -> None: ...


def drive(engine: Engine, plain: bool, as_json: bool) -> int:
    """Runs it to its end or to the user's; prints the tables, writes the report, gives the exit code."""
    run = engine.run
    recorded = {attempt.id for attempt in run.attempts()}
    progress = Progress(run.tasks, run.config, recorded=len(recorded))
    attempts: list[Attempt] = []
    engine.notify = progress.phase
    try:
        with display(progress, plain, as_json) as shown, interruptible(engine, progress, shown):
            for attempt in engine.attempts():
                attempts.append(attempt)
                line = progress.add(attempt)
                if attempt.id not in recorded:
                    shown.show(attempt, line)
            judge_bests(engine, progress, shown)
    except InfraError as error:
        raise InfraError(f"{error}; when that is mended: {resume_command(run.folder)}") from error
    finally:
        engine.executor.close()
    return conclude(engine, attempts, progress, as_json)


def judge_bests(engine: Engine, progress: Progress, shown: Display) -> None:
    """The last part of a run, unless its user stopped it."""
    if engine.stop_reason == BY_USER:
        return
    if count := len(pending(engine.run)):
        shown.note(f"judging {count} best kernel{'s' * (count != 1)} again, from the beginning")
        for final in reevaluate_best(engine):
            if text := progress.again(final):
                shown.note(text)
        progress.notice = ""


def display(progress: Progress, plain: bool, as_json: bool) -> Display:
    """Live on a terminal, plain lines elsewhere; on stderr when stdout is for JSON."""
    if plain or as_json or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainDisplay(progress, sys.stderr if as_json else sys.stdout)
    from evokernel.cli.live_display import LiveDisplay

    return LiveDisplay(progress)


@contextmanager
def interruptible(engine: Engine, progress: Progress, shown: Display) -> Iterator[None]:
    """The first Ctrl-C finishes what is in flight; the second ends the process, which can still be resumed."""
    asked = [0.0]

    def stop() -> None:
        if engine.stop.is_set() and time.monotonic() - asked[0] < TWICE_S:
            return  # one request that reached us twice: as our own and as our group's
        asked[0] = time.monotonic()
        if engine.stop.is_set():
            shown.__exit__(KeyboardInterrupt, None, None)
            os.write(2, f"aborted; go on with: {resume_command(engine.run.folder)}\n".encode())
            os._exit(INTERRUPTED)  # attempts in flight hold threads that nothing can end
        count = progress.in_flight
        engine.stop_reason = BY_USER
        engine.stop.set()
        shown.interrupt(f"finishing {count} attempt{'s' * (count != 1)} in flight; again to abort")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with answered((signal.SIGINT, signal.SIGTERM), stop):
        yield


@contextmanager
def answered(numbers: tuple[int, ...], answer: Callable[[], None]) -> Iterator[None]:
    """Answers signals at once, from a thread of its own: a handler in Python waits until the main thread, perhaps asleep, comes round."""
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def listen() -> None:
        while (said := os.read(heard, 1)) != DONE:
            if said[0] in numbers:
                answer()

    listener = threading.Thread(target=listen, daemon=True, name="signals")
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    fd_before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(told, DONE)
        listener.join()
        os.close(heard)
        os.close(told)


def conclude(engine: Engine, attempts: list[Attempt], progress: Progress, as_json: bool) -> int:
    """The tables at the end, and what to do next."""
    run, seconds = engine.run, progress.elapsed_s
    report, trouble = None, None
    try:
        report = write_page(run, attempts)
    except UserError as error:  # a full disk, say: the figures are still worth telling
        trouble = error
    if as_json:
        emit(summary(run, attempts, seconds, report))
    else:
        found = metrics.of_run(run, attempts)
        tell(f"\n{show(tables.operators(found), title=False)}\n")
        label = "time (this session)" if progress.recorded else "time"
        tell(pairs([*tables.totals(found, seconds, label), ("report", str(report or "not written"))]))
    if trouble:
        raise trouble
    if not engine.stop.is_set():
        return 0
    tell(f"stopped ({engine.stop_reason}); go on with: {resume_command(run.folder)}", err=as_json)
    return INTERRUPTED if engine.stop_reason == BY_USER else 0


def resume_command(folder: Path) -> str:
    """What to type to go on."""
    return f"evokernel resume {folder}"
