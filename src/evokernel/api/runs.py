"""Runs in the Python API: `ek.run`, `ek.open_run` and what a run offers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from evokernel.api.kernels import Export, Kernel
from evokernel.api.progress import make_display
from evokernel.api.tasks import Task, TaskList, as_spec
from evokernel.api.views import TableView
from evokernel.app.run_lifecycle import configure_run, continue_run, list_run_notes, run_to_completion, start_run
from evokernel.app.run_progress import Progress, show_record
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, TimedSize
from evokernel.core.run import Run as RunData
from evokernel.engine.final_eval import INTERRUPTED
from evokernel.engine.loop import Engine
from evokernel.reports import metrics, tables
from evokernel.reports.export import export_kernels, select_tasks
from evokernel.reports.run_report import write_run_report
from evokernel.reports.run_state import run_state
from evokernel.reports.summary import summarize_run
from evokernel.reports.tables import Column, Table

AnyPart = str | Mapping[str, Any]
"""The name of a plug-in, or a dictionary with its name and its settings."""
AnyTasks = str | os.PathLike[str] | Task | Sequence[str | os.PathLike[str] | Task]
"""A specification of tasks, a task, or several of these."""


class Run(TableView):
    """A run: its tasks, its attempts and the kernels that it has. A notebook shows one row per task.

    Figures are read from the run's folder when they are asked for, so that an object of a run that is still going on shows
    its present state.

    Attributes:
        data: The run's folder with its settings, as the rest of the package uses it.
    """

    def __init__(self, data: RunData) -> None:
        self.data = data

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.data.folder

    @property
    def id(self) -> str:
        """The name of the run."""
        return self.data.config.id

    @property
    def config(self) -> RunConfig:
        """All settings of the run."""
        return self.data.config

    @property
    def tasks(self) -> TaskList:
        """The tasks of the run, as they were when it started."""
        return TaskList(Task(task, None, task.timed_size) for task in self.data.tasks)

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts so far in the order of the journal; each has `task`, `candidate`, `outcome` and `reward`."""
        return self.data.attempts()

    @property
    def results(self) -> list[metrics.TaskResult]:
        """The result of each task: its attempts, its first correct kernel and its best one."""
        return metrics.collect_results(self.data, self.attempts)

    @property
    def state(self) -> str:
        """The state in one word: `finished`, `unsolved`, `running`, `interrupted`, `stopped`, `failed`, `killed`, `unfinished`."""
        return run_state(self.data, self.results).name

    @property
    def kernels(self) -> list[Kernel]:
        """The best kernel of each task that has a correct one."""
        return [Kernel(self.data, result) for result in self.results if result.best]

    def best(self, task: str | Task) -> Kernel:
        """Return the best kernel of a task.

        Args:
            task: The task, its id such as `starter/softmax`, or its name such as `softmax`.

        Raises:
            UserError: The run has no such task, or no kernel of the task passed every gate.
        """
        name = task.id if isinstance(task, Task) else task
        matches = select_tasks(self.results, name)
        if len(matches) != 1:
            raise UserError(f"'{name}' names {len(matches)} tasks: {', '.join(one.task.id for one in matches)}. Name one.")
        if not matches[0].best:
            raise UserError(f"no kernel of {matches[0].task.id} passed every gate. Give the run more attempts with resume(budget=N).")
        return Kernel(self.data, matches[0])

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the plots and the self-contained HTML report, as `evokernel report` does.

        Args:
            path: Path of the page; `report.html` in the run's folder by default.

        Returns:
            The path of the page.

        Raises:
            UserError: The page cannot be written.
        """
        report = write_run_report(self.data, self.attempts, Path(path) if path else None)
        if report.error or report.path is None:
            raise report.error or UserError(f"the report of {self.folder} was not written")
        return report.path

    def summary(self) -> dict[str, Any]:
        """Return the figures of the run as JSON, the same as `evokernel report --json` prints. What was not measured is None."""
        attempts = self.attempts
        return summarize_run(self.data, attempts, metrics.elapsed_s(attempts), None)

    def export(self, folder: str | os.PathLike[str], task: str = "", *, all_kernels: bool = False, package: str = "") -> Export:
        """Write the best kernels as an installable Python package of PyTorch operators, as `evokernel export` does.

        Args:
            folder: Where to write. A package that is already there gains the kernels; earlier ones of the same tasks are replaced.
            task: Export only this task: its id, its name, or a pattern.
            all_kernels: Export kernels too that are not faster than their best baseline; names mark them.
            package: Name of the Python package and of the operators' namespace; `evokernel_BACKEND` by default.

        Raises:
            UserError: There is nothing to export, or the folder cannot be written.
        """
        return Export(*export_kernels(self.data, self.attempts, Path(folder), task, export_all=all_kernels, package=package))

    def resume(self, budget: int | None = None, *, workers: int | None = None, quiet: bool = False, **settings: Any) -> Run:
        """Continue this run, or give a finished run more attempts, and wait until it ends.

        Args:
            budget: New number of attempts per task. It is spent completely.
            workers: Number of parallel verifications.
            quiet: Show no progress.
            **settings: Further settings that may change for the remaining attempts, as for `run`.

        Returns:
            This run.

        Raises:
            UserError: A setting cannot change, or another process writes to the run.
            InfraError: A device, a worker or a service failed; the run can be resumed.
        """
        finish(continue_run(self.folder, budget=budget, workers=workers, **settings), quiet)
        self.data = RunData.open(self.folder)
        return self

    def tables(self) -> list[Table]:
        """Return the tables that show this run, as data."""
        results = self.results
        totals = tuple(tables.run_totals(results, metrics.elapsed_s(self.attempts)))
        operators = tables.operator_table(results)
        title = f"{self.id} ({run_state(self.data, results).label})"
        return [
            Table(title, operators.columns, operators.rows, operators.note),
            Table("Totals", (Column("figure"), Column("value")), totals),
        ]


def run(
    tasks: AnyTasks = "starter",
    *,
    backend: AnyPart | None = None,
    generator: AnyPart | None = None,
    policy: AnyPart | None = None,
    budget: int | None = None,
    size: TimedSize | None = None,
    workers: int | None = None,
    seed: int | None = None,
    memory: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Write, verify and improve kernels for tasks, as `evokernel run` does, and wait until the run ends.

    A notebook shows a table that is updated, a terminal shows a line for each attempt. The first interrupt finishes the
    attempts in flight, and the run can be resumed; the second one raises KeyboardInterrupt.

    Args:
        tasks: A suite, `suite/name`, a path or a glob, a task that `ek.task` returned, or a list of these.
        backend: Kernel language; `pallas` by default, or `cpp` if pallas cannot work here.
        generator: What writes the kernels; `template_search` by default, which needs no model.
        policy: What chooses the context of each prompt; `value` by default.
        budget: Attempts per task; 10 by default, for `template_search` 5 or fewer.
        size: Timed size of the tasks: `laptop` or `full`; by default the backend and the suite decide.
        workers: Number of parallel verifications; by default one for each processor core.
        seed: Random seed.
        memory: The memory bank, a path or `postgresql://…`; `evokernel-memory.db` in the working folder by default.
        folder: The run's folder; `runs/ID` in the working folder by default.
        quiet: Show no progress.
        **settings: Any other setting of a run, such as `fresh=True`, `timeout_s=20` or `schedule="streaming"`. A part with its
            own settings is a dictionary: `policy={"name": "value", "epsilon": 0.1}`.

    Returns:
        The run, also if it solved nothing or was interrupted; see `Run.state`.

    Raises:
        UserError: A setting or a task has a mistake, or the backend cannot work here.
        InfraError: A device, a worker or a service failed; the run can be resumed.
    """
    check_run_folder(folder, settings)
    flags: dict[str, Any] = {
        "backend": backend,
        "generator": generator,
        "policy": policy,
        "budget": budget,
        "size": size,
        "workers": workers,
        "seed": seed,
    }
    config = configure_run(tasks=join_specs(tasks), memory=os.fspath(memory) if memory else None, **flags | settings)
    engine = start_run(config, Path(folder) if folder else None, lambda text: write_note(text, quiet))
    for note in list_run_notes(engine):
        write_note(note, quiet)
    finish(engine, quiet)
    return Run(RunData.open(engine.run.folder))


def check_run_folder(folder: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
    """Raise UserError if the folder of a new run has another argument's name, or already contains a run."""
    if "out" in settings:
        raise UserError(f"the folder of a run is the argument folder=, not out=: folder={os.fspath(settings['out'])!r}.")
    if folder and (Path(folder) / "run.toml").exists():
        name = os.fspath(folder)
        raise UserError(f"{name} already contains a run. Continue it with open_run({name!r}).resume(), or choose another folder=.")


async def arun(tasks: AnyTasks = "starter", **settings: Any) -> Run:
    """Make a run without blocking the event loop; the arguments, the result and the errors are those of `run`.

    The run works in a thread of its own, where Python handles no interrupts. It shows no progress unless `quiet=False`.
    """
    return await asyncio.to_thread(run, tasks, **{"quiet": True} | settings)


def open_run(folder: str | os.PathLike[str]) -> Run:
    """Open a run that was made earlier, by `ek.run` or by the command line.

    Args:
        folder: The run's folder.

    Raises:
        UserError: The folder is not a run.
    """
    if not isinstance(folder, str | os.PathLike):
        raise UserError(f"a run is named by its folder, not {type(folder).__name__}.")
    return Run(RunData.open(Path(folder)))


def join_specs(chosen: AnyTasks) -> str:
    """Return the specification of all tasks as one text."""
    if isinstance(chosen, str | os.PathLike | Task):
        return one_spec(chosen)
    if not isinstance(chosen, Sequence):
        raise UserError(f"tasks are a suite such as 'starter', a task, a file or a list of these, not {type(chosen).__name__}.")
    specs = [one_spec(one) for one in chosen]
    if not specs:
        raise UserError("no tasks given. Name a suite such as 'starter', a task or a file.")
    return ",".join(specs)


def one_spec(chosen: str | os.PathLike[str] | Task) -> str:
    """Return the specification of one task."""
    if isinstance(chosen, Task):
        return chosen.spec or chosen.id
    return as_spec(chosen)


def finish(engine: Engine, quiet: bool) -> None:
    """Run an engine to its end, show its progress, and release the run's folder and its bank."""
    recorded_ids = {attempt.id for attempt in engine.run.attempts()}
    progress = Progress(engine.run.tasks, engine.run.config, resumed_attempts=len(recorded_ids))
    engine.notify = progress.set_phase
    display = make_display(progress, quiet)
    try:
        with stop_at_interrupt(engine, display.show_note), closing(run_to_completion(engine)) as records:
            for record in records:
                show_record(record, progress, display, recorded_ids)
    finally:
        engine.close()
        display.close()


@contextmanager
def stop_at_interrupt(engine: Engine, show_note: Callable[[str], None]) -> Iterator[None]:
    """The first interrupt finishes the attempts in flight, the second raises KeyboardInterrupt. Nothing changes outside the main thread."""

    def handle(number: int, frame: object) -> None:
        if engine.stop.is_set():
            raise KeyboardInterrupt
        engine.stop_reason = INTERRUPTED
        engine.stop.set()
        show_note("Finishing the attempts in flight; interrupt again to abort")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def write_note(text: str, quiet: bool) -> None:
    """Write a note to stderr."""
    if not quiet:
        sys.stderr.write(f"note: {text}\n")
