"""Replaces a model's operators by a run's kernels, checks the model's outputs, and estimates its new latency.

This process loads no kernel: each one runs in its own sandboxed process, as in verification, on the model's tensors at that point. torch's
function is called as well, for the form of its result and to find the kernel that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from evokernel.core.backend import Array
from evokernel.core.environment import describe_hardware
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.numeric_contract import default_tolerance
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Task, Work
from evokernel.core.run import Run
from evokernel.engine.jobs import make_job
from evokernel.reference.arrays import from_array, to_array
from evokernel.reference.describe import declared_tolerance
from evokernel.reference.module import Reference, Sample
from evokernel.reference.signature import make_signature
from evokernel.reports import metrics
from evokernel.reports.delivery import compare_speed
from evokernel.reports.metrics import TaskResult
from evokernel.torch_models.calls import Function, InterceptedModule, OuterCallMode, canonical_call
from evokernel.torch_models.profiles import ModelProfile, Operator, fixed_threads
from evokernel.torch_models.single_call import SingleCall, find_single_call
from evokernel.verifier.compare import FLOATS, ExpectedOutput, decode_values
from evokernel.verifier.evaluators import open_trial
from evokernel.verifier.kernel_process import BoundKernel, CallBuffers
from evokernel.verifier.tolerance import Tolerance
from evokernel.verifier.trial import Trial
from evokernel.verifier.verifier import scratch_folder

SEEDS = 3
MEASURED = ("cpu", "wall")
NOT_SINGLE_CALL = "the task is not a single torch call"
NOT_CALLED = "the model does not call it with these shapes and arguments"


class SubstitutionResult(NamedTuple):
    """The result of one task of the run."""

    task: str
    operator: Operator | None
    """The operator in the model; None if the model does not call it."""
    attempt: str = ""
    replaced_calls: int = 0
    """Calls in one run of the model that the kernel replaced."""
    torch_calls: int = 0
    """Calls of the same shape that torch still computed."""
    max_error: float | None = None
    """The largest error of a call, in units of its output's root mean square."""
    kernel_s: float | None = None
    """Time per call; None if it is not comparable with times of this machine."""
    reason: str = ""
    """Why torch computes all calls, or how the kernel failed."""
    has_failed: bool = False
    speed_note: str = ""
    """How the kernel compares with its best baseline if it is not faster; empty if it is."""
    is_left_out: bool = False
    """Whether the kernel was left out because it is not faster than its best baseline."""


class ModelCheck(NamedTuple):
    """The check of the model's outputs for one seed."""

    seed: int
    is_correct: bool
    max_error_share: float
    """The largest error as a share of the tolerance; infinite for a NaN."""
    detail: str = ""


class SubstitutionReport(NamedTuple):
    """The results of all kernels, and the model's checks and estimated latency."""

    results: list[SubstitutionResult]
    checks: list[ModelCheck]
    estimated_s: float | None
    """Estimated latency of the model from measured parts; None if the kernels' times are not comparable."""
    no_estimate_reason: str = ""
    """Why there is no estimate."""

    @property
    def is_correct(self) -> bool:
        """Whether the model is correct for all seeds and no kernel failed."""
        return bool(self.checks) and all(one.is_correct for one in self.checks) and not any(one.has_failed for one in self.results)

    @property
    def replaced_calls(self) -> int:
        """Calls that kernels replaced in one run of the model."""
        return sum(one.replaced_calls for one in self.results)

    @property
    def left_out(self) -> list[SubstitutionResult]:
        """Kernels that were left out because they are not faster than their best baseline."""
        return [one for one in self.results if one.is_left_out]


@dataclass(eq=False)
class InstalledKernel:
    """A kernel in its running process, with counts of the calls it replaced."""

    task_result: TaskResult
    match: SingleCall
    trial: Trial
    sample: Sample
    outputs: tuple[Array, ...]
    replaced_calls: int = 0
    torch_calls: int = 0
    max_error: float = 0.0
    failure: str = ""

    def start(self) -> None:
        """Start the process, with buffers for the task's shapes, which are the model's."""
        self.arrays = self.sample.to_arrays()
        scalars = tuple((number.name, number.kind, number.value) for number in self.sample.scalars)
        self.kernel = BoundKernel(self.trial, CallBuffers(self.arrays, self.outputs), scalars)

    def run_on(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the kernel on the tensors of a call; raise if it writes outside its outputs or changes its inputs."""
        results = self.kernel.run([to_array(array.name, tensors[index]) for array, index in zip(self.arrays, self.match.tensor_order)])
        return [from_array(Array(blank.name, blank.dtype, data)) for blank, data in zip(self.outputs, results)]


class CallReplacer(OuterCallMode):
    """A torch function mode in which kernels replace the calls they were written for."""

    def __init__(self, kernels: Mapping[str, InstalledKernel]) -> None:
        super().__init__()
        self.kernels = kernels

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = canonical_call(func, args, kwargs)
        kernel = self.kernels.get(call.key) if call else None
        if call is None or kernel is None or kernel.failure:
            return func(*args, **kwargs)
        if not kernel.match.matches(call):
            kernel.torch_calls += 1
            return func(*args, **kwargs)
        try:
            kernel_outputs = kernel.run_on(call.tensors)
        except CandidateError as error:
            kernel.failure = f"{error.reason}: {error.detail}"
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        kernel.replaced_calls += 1
        return self.copy_results_into(kernel, result, kernel_outputs)

    def copy_results_into(self, kernel: InstalledKernel, result: Any, kernel_outputs: Sequence[torch.Tensor]) -> Any:
        """Copy the kernel's outputs into torch's result, which keeps its structure, memory and strides."""
        leaves, form = tree_flatten(result)
        indices = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for index, tensor in zip(indices, kernel_outputs, strict=True):
            kernel.max_error = max(kernel.max_error, call_error(tensor, leaves[index]))
            leaves[index].copy_(tensor)
        return tree_unflatten(leaves, form)


def substitute_kernels(
    reference: Reference,
    source: str,
    profile: ModelProfile,
    run: Run,
    seed: int,
    report_progress: Callable[[str], None] = lambda _: None,
    *,
    use_all: bool = False,
) -> SubstitutionReport:
    """Replace operators by a run's best kernels and compare the model's outputs with the original's, for several seeds.

    Kernels that are not faster than their best baseline are left out, unless `use_all`.
    """
    operators = {operator.call.key: operator for operator in profile.operators}
    task_results = metrics.collect_results(run, run.attempts())
    with ExitStack() as stack, fixed_threads(profile.threads):
        kernels: dict[str, InstalledKernel] = {}
        other_results: list[SubstitutionResult] = []
        for one in task_results:
            report_progress(f"starting the kernel for {one.task.id}")
            installation = install_kernel(one, run, operators, stack, use_all)
            if isinstance(installation, SubstitutionResult):
                other_results.append(installation)
            elif kernels.setdefault(installation.match.key, installation) is not installation:
                operator = operators[installation.match.key]
                other_results.append(SubstitutionResult(one.task.id, operator, reason="an earlier task is the same call"))
        if not kernels and all(one.operator is None for one in other_results):
            raise UserError(
                f"none of the {len(task_results)} tasks of {run.folder} is an operator of this model. Run the tasks that 'extract' writes."
            )
        checks = [check_model(reference, source, kernels, seed + index, report_progress) for index in range(SEEDS)] if kernels else []
        results = [kernel_result(kernel, operators[key], run) for key, kernel in kernels.items()] + other_results
    return SubstitutionReport(results, checks, *estimate_model_time(profile, results))


def install_kernel(
    task_result: TaskResult, run: Run, operators: Mapping[str, Operator], stack: ExitStack, use_all: bool
) -> InstalledKernel | SubstitutionResult:
    """Build and start the best kernel of a task; return a result with the reason if that is not possible."""
    task, best = task_result.task, task_result.best
    reference = Reference(task.source, task.id)
    sample = reference.sample(0)
    match = find_single_call(reference, sample)
    if match is None or match.key not in operators:
        return SubstitutionResult(task.id, None, reason=NOT_SINGLE_CALL if match is None else NOT_CALLED)
    operator = operators[match.key]
    if best is None:
        return SubstitutionResult(task.id, operator, torch_calls=operator.calls, reason="no kernel for it passed all gates")
    comparison = compare_speed(task_result.best_outcome)
    if not (use_all or comparison.is_faster):
        reason = f"left out: {comparison.describe()}"
        return SubstitutionResult(task.id, operator, best.id, torch_calls=operator.calls, reason=reason, is_left_out=True)
    job = make_job(run.config, task, best.candidate, seed=0)
    backend = make_plugin("backend", job.backend, **job.settings)
    if reason := backend.unavailable_reason():
        raise UserError(f"backend '{job.backend}' of {run.folder} is unavailable here: {reason}")
    trial = stack.enter_context(open_trial(job, backend, stack.enter_context(scratch_folder())))
    outputs = tuple(to_array(name, tensor) for name, tensor in reference.run(sample))
    kernel = InstalledKernel(task_result, match, trial, sample, outputs)
    try:
        trial.evaluator.screen(trial)
        trial.evaluator.build(trial)
        kernel.start()
    except CandidateError as error:
        reason = f"its kernel could not be started: {error.reason}: {error.detail}"
        return SubstitutionResult(task.id, operator, best.id, torch_calls=operator.calls, reason=reason, has_failed=True)
    except OSError as error:
        raise InfraError(f"the kernel for {task.id} could not be started: {error}") from error
    return kernel


def check_model(
    reference: Reference, source: str, kernels: Mapping[str, InstalledKernel], seed: int, report_progress: Callable[[str], None]
) -> ModelCheck:
    """Compare the outputs of the model with kernels with those of the original model, with the verifier's tolerance."""
    report_progress(f"checking the model with seed {seed}")
    for kernel in kernels.values():
        kernel.replaced_calls = kernel.torch_calls = 0
    sample = reference.sample(seed)
    expected_outputs = Tolerance(model_task(reference, source, sample), "strict").compute_expected(reference, "bench", "own", sample)
    outputs = reference.run(replace(sample, module=InterceptedModule(sample.module, CallReplacer(kernels))))
    arrays = [to_array(name, tensor) for name, tensor in outputs]
    wrong_names = [array.name for one, array in zip(expected_outputs, arrays, strict=True) if one.find_difference(array.data)]
    max_error = max(error_share(one, array) for one, array in zip(expected_outputs, arrays, strict=True))
    return ModelCheck(seed, not wrong_names, max_error, f"wrong: {', '.join(wrong_names)}" if wrong_names else "")


def model_task(reference: Reference, source: str, sample: Sample) -> Task:
    """Return the model as a task for the tolerance; its work and other sizes are not needed."""
    signature = make_signature(sample, reference.run(sample))
    default = default_tolerance(signature)
    tolerances = [declared_tolerance(reference, constant, default) for constant in ("ATOL", "RTOL")]
    return Task(
        id=reference.name,
        family="",
        source=source,
        signature=signature,
        work=Work(flops=0, bytes=0),
        sizes={"bench": {}},
        atol=tolerances[0],
        rtol=tolerances[1],
    )


def error_share(expected: ExpectedOutput, array: Array) -> float:
    """Return the largest error of an output as a share of the allowed error; for integers, the share of wrong values."""
    if array.dtype not in FLOATS:
        return float(np.mean(array.data != expected.array.data))
    values, target = decode_values(array.data, array.dtype), expected.target
    with np.errstate(all="ignore"):
        shares = np.where(values == target, 0.0, np.abs(values - target) / expected.allowed_error)
        both_nan = np.isnan(values) & np.isnan(target)
    max_share = float(np.where(both_nan, 0.0, shares).max(initial=0.0))
    return max_share if np.isfinite(max_share) else float("inf")


def call_error(output: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest error of a call, in units of the root mean square of torch's output."""
    exact = expected.double()
    finite = exact[exact.isfinite()]
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
    errors = torch.where((output == expected) | (output.isnan() & expected.isnan()), 0.0, (output.double() - exact).abs())
    max_error = float(errors.max()) / (scale or 1.0) if errors.numel() else 0.0
    return max_error if np.isfinite(max_error) else float("inf")


def kernel_result(kernel: InstalledKernel, operator: Operator, run: Run) -> SubstitutionResult:
    """Return the result of an installed kernel after the checks."""
    best, outcome = kernel.task_result.best, kernel.task_result.best_outcome
    comparison = compare_speed(outcome)
    is_same_hardware = all(environment["hardware"] == describe_hardware() for environment in run.environments())
    is_comparable = outcome is not None and outcome.clock in MEASURED and is_same_hardware and outcome.latency_us
    return SubstitutionResult(
        task=kernel.task_result.task.id,
        operator=operator,
        attempt=best.id if best else "",
        replaced_calls=kernel.replaced_calls,
        torch_calls=kernel.torch_calls,
        max_error=kernel.max_error,
        kernel_s=outcome.latency_us * 1e-6 if is_comparable and outcome and outcome.latency_us else None,
        reason=kernel.failure or ("" if kernel.replaced_calls else NOT_CALLED),
        has_failed=bool(kernel.failure),
        speed_note="" if comparison.is_faster else comparison.describe(),
    )


def estimate_model_time(profile: ModelProfile, results: Sequence[SubstitutionResult]) -> tuple[float | None, str]:
    """Return the model's estimated time, its own minus the savings of each kernel; or None and the reason."""
    active = [one for one in results if one.replaced_calls and one.operator]
    if not active:
        return None, "no kernel replaced a call"
    if any(one.kernel_s is None for one in active):
        return None, "not comparable: the kernels' times are estimates for another device, or were measured on another machine"
    saved_s = sum(
        one.replaced_calls * (one.operator.seconds / one.operator.calls - (one.kernel_s or 0.0)) for one in active if one.operator
    )
    return profile.seconds - saved_s, ""
