"""Runs a kernel outside of a verification, in a sandboxed process as during one: the caller's process never loads the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.errors import CandidateError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job, Settings, Task
from evokernel.verifier.evaluators import open_trial
from evokernel.verifier.trial import Trial
from evokernel.verifier.verifier import scratch_folder

TIMEOUT_S = 600.0
Scalars = tuple[tuple[str, str, float], ...]


class CallBuffers(NamedTuple):
    """The tensors of one call, without values: for a process with memory for them."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class BoundKernel:
    """A kernel in its running process, bound to the shapes and scalars of one call."""

    def __init__(self, trial: Trial, buffers: CallBuffers, scalars: Scalars) -> None:
        self.trial = trial
        process = trial.candidate_process or trial.start_process([buffers])
        process.wait_ready()
        process.load()
        assert trial.arena
        self.slot = trial.arena.add_slot(buffers.inputs, buffers.outputs)
        process.bind(self.slot, scalars)

    def run(self, inputs: Sequence[Array]) -> list[np.ndarray]:
        """Return the outputs; raise if the kernel writes outside its outputs, changes its inputs, or ran only in part."""
        trial = self.trial
        process, arena = trial.candidate_process, trial.arena
        assert process
        assert arena
        arena.write_inputs(self.slot, inputs)
        arena.poison_outputs(self.slot)
        process.remaining_s = process.timeout_s
        process.used_s.clear()
        offset = process.stderr_size()
        with trial.translate_errors():
            process.run(self.slot)
        if violations := [*arena.find_stray_writes(self.slot), *arena.find_changed_inputs(self.slot, inputs)]:
            raise CandidateError("out_of_bounds", f"the kernel wrote to memory it must not change: {', '.join(violations)}")
        if note := trial.backend.partial_run_note(trial.workdir, trial.stderr_tail(offset)):
            raise CandidateError("timeout", f"{note}: the simulator is too slow for these sizes. Raise the backend's setting run_s.")
        return arena.copy_outputs(self.slot)


class KernelProcess:
    """A kernel that is built once and can be called at several sizes; a new size starts a new process."""

    def __init__(self, task: Task, candidate: Candidate, settings: Settings, timeout_s: float = TIMEOUT_S) -> None:
        job = Job(backend=candidate.backend, settings=settings, task=task, candidate=candidate, timeout_s=timeout_s)
        self.stack = ExitStack()
        self.key: object = None
        self.kernel: BoundKernel | None = None
        with ExitStack() as opening:
            backend = make_plugin("backend", job.backend, **job.settings)
            self.trial = opening.enter_context(open_trial(job, backend, opening.enter_context(scratch_folder())))
            self.trial.evaluator.screen(self.trial)
            self.trial.evaluator.build(self.trial)
            self.stack = opening.pop_all()

    def __enter__(self) -> KernelProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stack.close()

    def run(self, inputs: Sequence[Array], scalars: Scalars, outputs: Sequence[Array]) -> list[np.ndarray]:
        """Run the kernel on these arrays; `outputs` give the shapes and dtypes of its results."""
        key = (scalars, tuple((array.dtype, array.data.shape) for array in (*inputs, *outputs)))
        if self.kernel is None or key != self.key:
            self.stop_process()
            self.kernel, self.key = BoundKernel(self.trial, CallBuffers(tuple(inputs), tuple(outputs)), scalars), key
        return self.kernel.run(inputs)

    def stop_process(self) -> None:
        """End the process of another size and free its memory."""
        if self.trial.candidate_process:
            self.trial.candidate_process.close()
        if self.trial.arena:
            self.trial.arena.close()
        self.trial.candidate_process = self.trial.arena = self.kernel = None
