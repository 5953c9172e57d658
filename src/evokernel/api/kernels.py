"""A verified kernel of a run, `Run.best(task)`, and what an export wrote."""

from __future__ import annotations

import os
from pathlib import Path

from evokernel.api.views import TableView
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.core.run import Run as RunData
from evokernel.reports.delivery import compare_speed
from evokernel.reports.export import ExportResult, export_kernels
from evokernel.reports.metrics import TaskResult
from evokernel.reports.outcome_report import measurement_rows
from evokernel.reports.tables import Column, Table


class Export(TableView, ExportResult):
    """What an export wrote, shown as a table with one row per kernel.

    Attributes:
        folder: The folder that can be installed with pip.
        package: Name of the Python package and of the operators' namespace.
        kernels: The kernels that were written: `task`, `attempt`, `folder`, `operator`, `latency_us`, `comparison`.
        omitted: Correct kernels that were left out, because they are not faster than their best baseline.
        unsolved: Ids of the tasks without a correct kernel.
        kept: Kernels of other tasks that were in the package before.
    """

    def tables(self) -> list[Table]:
        """Return the table of the kernels that were written, as data."""
        columns = (Column("task"), Column("latency", "us"), Column("speed"), Column("operator" if self.has_wrapper else "folder"))
        rows = tuple((one.task, one.latency_us, one.comparison.describe(), one.operator or str(one.folder)) for one in self.kernels)
        return [Table(f"Exported to {self.folder}", columns, rows)]

    def note(self) -> str:
        """Return what else is in the package, and what was left out."""
        kept = f"Kept from earlier exports: {', '.join(one.task for one in self.kept)}" if self.kept else ""
        unsolved = f"Not solved: {', '.join(self.unsolved)}" if self.unsolved else ""
        return "\n".join(filter(None, [kept, self.describe_omitted(), unsolved]))


class Kernel(TableView):
    """The best kernel that a run has for a task: it passed every gate, and its re-evaluation if there was one.

    Attributes:
        task: The record of the task it computes.
        attempt: Id of the attempt that wrote it.
        candidate: The record of its files.
        outcome: The verifier's record; of the re-evaluation if there was one.
    """

    def __init__(self, run: RunData, result: TaskResult) -> None:
        assert result.best
        assert result.best_outcome
        self._run = run
        self.task: Task = result.task
        self.attempt: str = result.best.id
        self.candidate: Candidate = result.best.candidate
        self.outcome: Outcome = result.best_outcome

    @property
    def backend(self) -> str:
        """Name of the backend whose language the kernel is written in."""
        return self.candidate.backend

    @property
    def files(self) -> dict[str, str]:
        """The text of each file of the kernel, by its name."""
        return dict(self.candidate.files)

    @property
    def code(self) -> str:
        """The kernel's source; several files follow each other."""
        return self.candidate.code

    @property
    def latency_us(self) -> float | None:
        """The kernel's latency in microseconds; None if it was not timed."""
        return self.outcome.latency_us

    @property
    def speedup(self) -> float | None:
        """Latency of the first baseline, usually PyTorch eager, divided by the kernel's: above 1, the kernel is faster."""
        return self.outcome.speedup

    @property
    def is_faster(self) -> bool:
        """Whether the kernel is faster than its best baseline by more than the noise of the measurement."""
        return compare_speed(self.outcome).is_faster

    def export(self, folder: str | os.PathLike[str], package: str = "") -> Export:
        """Write this kernel as an installable Python package with a PyTorch operator, its tests and its provenance.

        `evokernel export` does the same for all kernels of a run that are faster than their best baseline. This kernel is
        exported in any case, because the caller chose it; the operator's name ends in `_slower` or `_not_faster` if it is not
        faster.

        Args:
            folder: Where to write. A package that is already there gains the kernels; earlier ones of the same tasks are replaced.
            package: Name of the Python package and of the operator's namespace; `evokernel_BACKEND` by default.

        Returns:
            The folder, the package and the operator's name.

        Raises:
            UserError: The folder cannot be written, or the package's name is invalid.
        """
        return Export(*export_kernels(self._run, self._run.attempts(), Path(folder), self.task.id, export_all=True, package=package))

    def tables(self) -> list[Table]:
        """Return the table that shows this kernel, as data."""
        facts = [("attempt", self.attempt), ("backend", self.backend), ("files", ", ".join(self.files))]
        rows = (*facts, *measurement_rows(self.outcome))
        title = f"{self.task.id}: {compare_speed(self.outcome).describe()}"
        return [Table(title, (Column("property"), Column("value")), rows)]
