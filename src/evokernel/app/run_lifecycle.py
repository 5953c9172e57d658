"""The lifecycle of a run: settings, start or resume, attempts, re-evaluation of the best kernels, interrupts, exit code.

The command line, Python callers and servers share it. It prints nothing: callers show the records that it yields.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from evokernel.app.factory import apply_generator_defaults, choose_working_backend, create_engine, describe_limitations, resume_engine
from evokernel.core.bank_uri import resolve_path
from evokernel.core.commands import program_name
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.core.sessions import SessionEnd, record_session_end, record_session_start
from evokernel.engine.final_eval import INTERRUPTED, pending_reevaluations, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.reports.formatting import explain_tags

INTERRUPTED_EXIT, UNSOLVED_EXIT = 130, 1
DUPLICATE_SIGNAL_S = 0.3
STOP_BYTE = b"\0"  # not a signal number


class ReevaluationStart(NamedTuple):
    """The attempts are finished; the re-evaluation of the best kernels begins."""

    kernel_count: int


RunRecord = Attempt | ReevaluationStart | FinalResult


def configure_run(file: Path | None = None, overrides: Sequence[str] = (), **flags: Any) -> RunConfig:
    """Return the settings of a new run: defaults, a TOML file, flags that are not None, then overrides `part.key=value`.

    The path of the memory bank becomes absolute, so that the run finds its bank when it is resumed from another folder.
    """
    settings = resolve_config(file, overrides, **flags)
    return apply_generator_defaults(settings.model_copy(update={"memory": resolve_path(settings.memory)}))


def start_run(settings: RunConfig, folder: Path | None, on_fallback: Callable[[str], None]) -> Engine:
    """Create a run; `on_fallback` gets a sentence if another backend than the default one is used because that cannot work here."""
    settings, reason = choose_working_backend(settings)
    if reason:
        on_fallback(f"{reason}. Using backend '{settings.plugin_name('backend')}' instead.")
    return create_engine(settings, folder)


def continue_run(folder: Path, overrides: Sequence[str] = (), *, budget: int | None = None, **flags: Any) -> Engine:
    """Resume a run. A new budget is spent completely, also on tasks that ended earlier because a further attempt promised no gain."""
    stop_when = "budget" if budget and Run.open(folder).config.stop_when == "gain" else None
    return resume_engine(folder, overrides, **{"budget": budget, "stop_when": stop_when} | flags)


def list_run_notes(engine: Engine) -> list[str]:
    """Return what limits the results of a run: of its backend on this machine, and of its tasks."""
    limitations = describe_limitations(engine.run.config)
    return [
        *([limitations] if limitations else []),
        *(f"{task.id}: {text}" for task in engine.run.tasks for text in explain_tags(task.tags)),
    ]


def run_to_completion(engine: Engine) -> Generator[RunRecord, None, None]:
    """Make the attempts, then re-evaluate the best kernels unless the user interrupted the run; yield each record when it is stored.

    A resumed run also yields the attempts of its journal. The executor is closed at the end.
    """
    try:
        with SessionRecorder(engine):
            yield from engine.make_attempts()
            if engine.stop_reason != INTERRUPTED and (count := len(pending_reevaluations(engine.run))):
                yield ReevaluationStart(count)
                yield from reevaluate_best(engine)
    except InfraError as error:
        raise InfraError(f"{str(error).rstrip('.')}. Once fixed, resume with: {resume_command(engine.run.folder)}") from error
    finally:
        engine.executor.close()


class SessionRecorder:
    """Records the start of a session on entry and how it ended on exit; errors propagate."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> None:
        record_session_start(self.engine.run.folder, self.engine.clock())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with suppress(UserError):  # a full disk: the error that ended the session matters more
            record_session_end(self.engine.run.folder, self.engine.clock(), *self.describe_end(error))

    def describe_end(self, error: BaseException | None) -> tuple[SessionEnd, str]:
        """Return how the session ended, with the message of the error or limit that ended it."""
        if isinstance(error, KeyboardInterrupt | GeneratorExit) or self.engine.stop_reason == INTERRUPTED:
            return SessionEnd.INTERRUPTED, ""
        if error:
            return SessionEnd.FAILED, str(error) if isinstance(error, InfraError | UserError) else f"{type(error).__name__}: {error}"
        if self.engine.stop.is_set():
            return SessionEnd.STOPPED, self.engine.stop_reason
        return SessionEnd.FINISHED, ""


def exit_code(engine: Engine, solved_share: float, fail_under: float = 0) -> int:
    """Return the exit code of a process that ran the engine: 130 if the user interrupted it, 1 if it solved nothing or too little.

    `solved_share` is the share of tasks whose kernel passed all gates and its re-evaluation; less than `fail_under` is too little.
    """
    if engine.stop.is_set() and engine.stop_reason == INTERRUPTED:
        return INTERRUPTED_EXIT
    return 0 if solved_share and solved_share >= fail_under else UNSOLVED_EXIT


def resume_command(folder: Path) -> str:
    """Return the command line that resumes a run."""
    return f"{program_name()} resume {folder}"


@contextmanager
def stop_on_interrupt(
    engine: Engine, count_in_flight: Callable[[], int], on_stop: Callable[[int], None], on_abort: Callable[[], None]
) -> Iterator[None]:
    """The first Ctrl-C finishes the attempts in flight; the second ends the process. Both leave a run that can be resumed.

    `on_stop`, with the number of attempts in flight, and `on_abort` tell the user so. Outside the main thread, where Python
    handles no signals, this does nothing.
    """
    requested_at = [0.0]

    def stop() -> None:
        if engine.stop.is_set() and time.monotonic() - requested_at[0] < DUPLICATE_SIGNAL_S:
            return  # one request that arrived twice: for this process and for its group
        requested_at[0] = time.monotonic()
        if engine.stop.is_set():
            on_abort()
            with suppress(UserError):
                record_session_end(engine.run.folder, engine.clock(), SessionEnd.INTERRUPTED)
            os._exit(INTERRUPTED_EXIT)  # threads of attempts in flight cannot be stopped
        count = count_in_flight()
        engine.stop_reason = INTERRUPTED
        engine.stop.set()
        on_stop(count)

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
