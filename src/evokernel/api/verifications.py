"""Verification in the Python API: `ek.verify`, `ek.verify_many` and their asynchronous forms."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from evokernel.api.kernels import Kernel
from evokernel.api.tasks import Task
from evokernel.api.views import TableView
from evokernel.api.workers import shared_pool
from evokernel.app.verification_pool import KernelSource, PlannedVerification, ProgressListener, TaskSource, VerificationPool, is_path
from evokernel.core.cores import usable_cores
from evokernel.core.errors import UserError
from evokernel.core.records import GateResult, Outcome, TimedSize
from evokernel.core.records import Task as TaskRecord
from evokernel.reports import formatting
from evokernel.reports.outcome_report import list_unreached_gates, measurement_rows, outcome_record
from evokernel.reports.tables import Column, Table

AnyKernel = KernelSource | Kernel
"""A kernel: source text, the path of a file or folder, a dictionary of files by name, or a kernel of a run."""
AnyTask = TaskSource | Task
"""A task: `suite/name`, the path of a .py file, or a task that `ek.task` returned."""


class Verification(TableView):
    """The verifier's result for one kernel. A notebook shows its gates and measurements as tables.

    Attributes:
        task: The task's record.
        kernel: The kernel that was verified.
        name: What tables call the kernel: its path, its attempt in a run, or else the id of the candidate.
        outcome: The complete record of the verifier.
    """

    def __init__(self, planned: PlannedVerification, outcome: Outcome, name: str = "") -> None:
        self.task: TaskRecord = planned.task
        self.kernel = planned.candidate
        self.name = name or planned.candidate.id
        self.outcome = outcome

    def __bool__(self) -> bool:
        return self.correct

    @property
    def correct(self) -> bool:
        """Whether the kernel passed every gate."""
        return self.outcome.feasible

    @property
    def gates(self) -> tuple[GateResult, ...]:
        """The gates in order up to the first that failed: `gate`, `passed`, `reason`, `detail` and `seconds` of each."""
        return self.outcome.gates

    @property
    def reason(self) -> str | None:
        """Why the kernel failed, in one stable word such as `mismatch`; None if it is correct."""
        return self.outcome.failure.reason if self.outcome.failure else None

    @property
    def detail(self) -> str:
        """What is wrong and how to fix it, for the kernel's author or a prompt; empty if the kernel is correct."""
        return self.outcome.failure.detail if self.outcome.failure else ""

    @property
    def latency_us(self) -> float | None:
        """The kernel's latency in microseconds; None if it was not timed."""
        return self.outcome.latency_us

    @property
    def speedup(self) -> float | None:
        """PyTorch eager's latency divided by the kernel's: above 1, the kernel is faster. None if it was not timed.

        Backends without a time of PyTorch eager compare with their own first baseline, which `outcome.baseline_name` names.
        """
        return self.outcome.speedup

    @property
    def speedups(self) -> dict[str, float]:
        """The speed-up over each baseline that was timed, by its name: `eager`, `compile`."""
        own = self.latency_us
        latencies = {name: self.outcome.baseline_latency_us(name) for name in self.outcome.baseline_us}
        return {name: us / own for name, us in latencies.items() if us and own}

    def record(self) -> dict[str, Any]:
        """Return the result as JSON, the same as `evokernel verify --json` prints."""
        return outcome_record(self.task, self.kernel, self.outcome)

    def tables(self) -> list[Table]:
        """Return the tables of gates and measurements, as data."""
        columns = (Column("gate"), Column("result"), Column("time", "value"), Column("reason"))
        title = f"{self.task.id}: {'passed every gate' if self.correct else 'failed'}"
        tables = [Table(title, columns, tuple(self.gate_rows()))]
        if rows := tuple(measurement_rows(self.outcome)):
            tables.append(Table("Measurements", (Column("figure"), Column("value")), rows))
        return tables

    def gate_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the rows of the gates, with those that were not reached."""
        for gate in self.gates:
            yield gate.gate, "✓ passed" if gate.passed else "✗ failed", f"{gate.seconds:.2f} s", gate.reason
        yield from ((name, "not reached", "", "") for name in list_unreached_gates(self.outcome))

    def note(self) -> str:
        """Return the explanation of a failure."""
        return self.detail


class Verifications(list[Verification], TableView):
    """The results of several kernels in their order, shown as a table with one row each."""

    def __repr__(self) -> str:
        return TableView.__repr__(self)

    @property
    def correct(self) -> Verifications:
        """The results of the kernels that passed every gate."""
        return Verifications(one for one in self if one.correct)

    def tables(self) -> list[Table]:
        """Return the table that shows these results, as data."""
        columns = (
            *(Column("task"), Column("kernel"), Column("result"), Column("reason")),
            *(Column("latency", "us"), Column("speed-up", "ratio", explanation="latency of the first baseline / latency of the kernel")),
        )
        rows = tuple(
            (one.task.id, one.name, "✓ correct" if one.correct else "✗ failed", one.reason or "", one.latency_us, one.speedup)
            for one in self
        )
        return [Table(f"{len(self.correct)} of {formatting.format_count(len(self), 'kernel')} passed every gate", columns, rows)]


def verify(
    kernel: AnyKernel,
    task: AnyTask,
    backend: str | None = None,
    size: TimedSize | None = None,
    baselines: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    on_gate: ProgressListener | None = None,
    ignore_cache: bool = False,
) -> Verification:
    """Verify one kernel for one task through all gates, and wait for the result.

    The kernel never runs in this process. The worker that verifies it stays warm for the next call.

    Args:
        kernel: Source text, the path of a file or folder, a dictionary of files by name, or a kernel of a run.
        task: `suite/name`, the path of a .py file, or a task that `ek.task` returned.
        backend: Kernel language, such as `cpp`; needed for source text, detected from the name of a file.
        size: The size at which the kernel is timed, `laptop` or `full`; by default the task's, or else the backend decides.
        baselines: Timed besides PyTorch's eager mode: `["compile"]` for torch.compile.
        settings: Settings as of a run, such as `{"timeout_s": 20, "backend": {"threads": 2}}`.
        on_gate: Called with a gate's name and None when the gate starts, and with its result when it ends; from another
            thread.
        ignore_cache: Verify again even if the same kernel was verified before under the same settings.

    Returns:
        The result: `correct`, `reason`, `detail`, `latency_us`, `speedup`, `gates`, `outcome`.

    Raises:
        UserError: The call has a mistake; the message says how to fix it. A wrong kernel is a result, not an error.
        InfraError: No worker could complete the verification.
    """
    pool = shared_pool(settings=settings)
    planned = plan(pool, kernel, task, backend, size, baselines, settings)
    return Verification(planned, pool.submit(planned, on_gate=on_gate, ignore_cache=ignore_cache).result(), kernel_name(kernel))


async def averify(
    kernel: AnyKernel,
    task: AnyTask,
    backend: str | None = None,
    size: TimedSize | None = None,
    baselines: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    on_gate: ProgressListener | None = None,
    ignore_cache: bool = False,
) -> Verification:
    """Verify one kernel without blocking the event loop; the arguments, the result and the errors are those of `verify`."""
    pool = await asyncio.to_thread(shared_pool, None, settings)
    planned = await asyncio.to_thread(plan, pool, kernel, task, backend, size, baselines, settings)
    future = pool.submit(planned, on_gate=on_gate, ignore_cache=ignore_cache)
    return Verification(planned, await asyncio.wrap_future(future), kernel_name(kernel))


def verify_many(
    kernels: Sequence[AnyKernel],
    task: AnyTask | Sequence[AnyTask],
    backend: str | None = None,
    size: TimedSize | None = None,
    baselines: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    ignore_cache: bool = False,
) -> Verifications:
    """Verify several kernels in parallel, and wait for all results.

    All calls are checked before the first kernel is verified.

    Args:
        kernels: The kernels, each as for `verify`.
        task: One task for all kernels, or a list with one task for each.
        backend: Kernel language, as for `verify`.
        size: Timed size, as for `verify`.
        baselines: Further baselines, as for `verify`.
        settings: Settings, as for `verify`.
        workers: The largest number of verifications at a time; by default one for each processor core.
        ignore_cache: Verify again even if a kernel was verified before.

    Returns:
        The results in the order of the kernels; a notebook shows them as a table.

    Raises:
        UserError: A kernel or an argument has a mistake; the message names the kernel by its position, from 0.
        InfraError: No worker could complete a verification.
    """
    pool = shared_pool(workers, settings)
    plans = plan_many(pool, kernels, task, backend, size, baselines, settings)
    futures: list[Future[Outcome]] = []
    for planned in plans:
        running = [future for future in futures if not future.done()]
        if len(running) >= (workers or usable_cores()):
            wait(running, return_when=FIRST_COMPLETED)
        futures.append(pool.submit(planned, ignore_cache=ignore_cache))
    outcomes = [future.result() for future in futures]
    return Verifications(map(Verification, plans, outcomes, map(kernel_name, kernels)))


async def averify_many(
    kernels: Sequence[AnyKernel],
    task: AnyTask | Sequence[AnyTask],
    backend: str | None = None,
    size: TimedSize | None = None,
    baselines: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    ignore_cache: bool = False,
) -> Verifications:
    """Verify several kernels without blocking the event loop; arguments, result and errors are those of `verify_many`."""
    pool = await asyncio.to_thread(shared_pool, workers, settings)
    plans = await asyncio.to_thread(plan_many, pool, kernels, task, backend, size, baselines, settings)
    limit = asyncio.Semaphore(workers or usable_cores())

    async def verify_one(planned: PlannedVerification, name: str) -> Verification:
        async with limit:
            return Verification(planned, await asyncio.wrap_future(pool.submit(planned, ignore_cache=ignore_cache)), name)

    return Verifications(await asyncio.gather(*map(verify_one, plans, map(kernel_name, kernels))))


def kernel_name(kernel: AnyKernel) -> str:
    """Return what tables call a kernel: its path or its attempt in a run; empty for source text."""
    if isinstance(kernel, Kernel):
        return kernel.attempt
    return os.fspath(kernel) if isinstance(kernel, os.PathLike) or (isinstance(kernel, str) and is_path(kernel)) else ""


def plan(
    pool: VerificationPool,
    kernel: AnyKernel,
    task: AnyTask,
    backend: str | None,
    size: TimedSize | None,
    baselines: Sequence[str],
    settings: Mapping[str, Any] | None,
) -> PlannedVerification:
    """Check the arguments of one verification. Raises UserError."""
    if isinstance(baselines, str) or not isinstance(baselines, Sequence):
        raise UserError(f"baselines must be a list of names, such as [{baselines!r}]")
    source = kernel.candidate if isinstance(kernel, Kernel) else kernel
    own_size = size or (task.size if isinstance(task, Task) else None)
    spec = (task.spec or task.data) if isinstance(task, Task) else task
    return pool.plan(source, spec, backend=backend, size=own_size, baselines=baselines, settings=settings)


def plan_many(
    pool: VerificationPool,
    kernels: Sequence[AnyKernel],
    task: AnyTask | Sequence[AnyTask],
    backend: str | None,
    size: TimedSize | None,
    baselines: Sequence[str],
    settings: Mapping[str, Any] | None,
) -> list[PlannedVerification]:
    """Check the arguments of several verifications. Raises UserError, which names the kernel by its position."""
    if isinstance(kernels, str | Mapping) or not isinstance(kernels, Sequence):
        raise UserError("verify_many takes a list of kernels. For one kernel, call verify.")
    tasks: list[Any] = list(task) if isinstance(task, list | tuple) else [task] * len(kernels)
    if len(tasks) != len(kernels):
        raise UserError(f"there are {len(kernels)} kernels but {len(tasks)} tasks. Name one task for all, or one for each kernel.")
    plans = []
    for number, (kernel, one) in enumerate(zip(kernels, tasks, strict=True)):
        try:
            plans.append(plan(pool, kernel, one, backend, size, baselines, settings))
        except UserError as error:
            raise UserError(f"kernel {number}: {error}") from error
    return plans
