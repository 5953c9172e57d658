"""Kernels of a run in place of a model's own operators: is the model still right, and what would it take?

No kernel is loaded here. Each runs as it does when it is judged, in a jailed process of its own, on the tensors the model has at that
point; torch's function is called as well, for what its result looks like and to say which kernel is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from evokernel.app.factory import describe_hardware
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Array
from evokernel.core.records import Job, Task, Work
from evokernel.core.run import Run
from evokernel.reference.arrays import from_array, to_array
from evokernel.reference.describe import declared, default_tolerance
from evokernel.reference.extract.calls import Function, Outermost, Watched, call_of
from evokernel.reference.extract.profiles import Operator, Profile, fixed
from evokernel.reference.extract.single_call import Alone, alone
from evokernel.reference.module import Reference, Sample
from evokernel.reference.signature import signature
from evokernel.reports import metrics
from evokernel.reports.metrics import Tried
from evokernel.verify import gates
from evokernel.verify.compare import FLOATS, Expected, numbers
from evokernel.verify.tolerance import Tolerance
from evokernel.verify.trial import Trial
from evokernel.verify.verifier import scratch

SEEDS = 3
MEASURED = ("cpu", "wall")
SEVERAL = "the task is not one call of torch alone"
NOWHERE = "the model does not call it with these shapes and arguments"


class Told(NamedTuple):
    """What became of one task of the run."""

    task: str
    operator: Operator | None
    """What it is in the model."""
    attempt: str = ""
    replaced: int = 0
    """Calls of one run of the model that the kernel stood in for."""
    left: int = 0
    """Calls left to torch although they look the same."""
    worst: float | None = None
    """The largest error of a call, in units of its output's root mean square."""
    kernel_s: float | None = None
    """Per call, where it can be held against times of this machine."""
    reason: str = ""
    """Why torch keeps all of it; or how the kernel failed."""
    failed: bool = False


class Checked(NamedTuple):
    """The model's outputs for one seed."""

    seed: int
    right: bool
    worst: float
    """The largest error, as a share of what is allowed; infinite where something is not a number."""
    detail: str = ""


class PutBack(NamedTuple):
    """A model with kernels in it."""

    told: list[Told]
    checked: list[Checked]
    seconds: float | None
    """An estimate from measured parts; None where kernels were timed otherwise, or elsewhere."""
    why: str = ""
    """Why there is no estimate."""

    @property
    def right(self) -> bool:
        return bool(self.checked) and all(one.right for one in self.checked) and not any(one.failed for one in self.told)

    @property
    def replaced(self) -> int:
        return sum(one.replaced for one in self.told)


@dataclass(eq=False)
class Installed:
    """A kernel alive in its process."""

    tried: Tried
    match: Alone
    trial: Trial
    sample: Sample
    outputs: tuple[Array, ...]
    replaced: int = 0
    left: int = 0
    worst: float = 0.0
    failure: str = ""

    def bind(self) -> None:
        """Starts it, with room for the task's own shapes, which are the model's."""
        trial = self.trial
        if trial.child is None:
            trial.start([]).wait_ready()
        assert trial.child
        assert trial.arena
        trial.child.load()
        self.arrays = self.sample.arrays()
        self.slot = trial.arena.slot(self.arrays, self.outputs)
        trial.child.bind(self.slot, tuple((number.name, number.kind, number.value) for number in self.sample.scalars))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the kernel makes of the tensors of a call; it may neither write beside its outputs nor change what it is given."""
        trial = self.trial
        assert trial.child
        assert trial.arena
        inputs = [to_array(array.name, tensors[index]) for array, index in zip(self.arrays, self.match.order)]
        trial.arena.fill(self.slot, inputs)
        trial.arena.poison(self.slot)
        trial.child.left_s = trial.child.timeout_s
        trial.child.run(self.slot)
        if wrong := [*trial.arena.trespassed(self.slot), *trial.arena.changed(self.slot, inputs)]:
            raise CandidateError("out_of_bounds", f"the kernel wrote where it must not: {', '.join(wrong)}")
        results = trial.arena.results(self.slot)
        return [from_array(Array(blank.name, blank.dtype, data)) for blank, data in zip(self.outputs, results)]


class Replacing(Outermost):
    """While it is in force, kernels stand in for the calls they were written for."""

    def __init__(self, kernels: Mapping[str, Installed]) -> None:
        super().__init__()
        self.kernels = kernels

    def called(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = call_of(func, args, kwargs)
        kernel = self.kernels.get(call.key) if call else None
        if call is None or kernel is None or kernel.failure:
            return func(*args, **kwargs)
        if not kernel.match.fits(call):
            kernel.left += 1
            return func(*args, **kwargs)
        try:
            found = kernel.run(call.tensors)
        except CandidateError as error:
            kernel.failure = f"{error.reason}: {error.detail}"
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        kernel.replaced += 1
        return self.instead(kernel, result, found)

    def instead(self, kernel: Installed, result: Any, found: Sequence[torch.Tensor]) -> Any:
        """The kernel's results in the form of torch's: same memory where that was written in place, same order of elements otherwise."""
        leaves, form = tree_flatten(result)
        places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for index, tensor in zip(places, found, strict=True):
            kernel.worst = max(kernel.worst, distance(tensor, leaves[index]))
            leaves[index].copy_(tensor)
        return tree_unflatten(leaves, form)


def put_back(
    reference: Reference, source: str, profile: Profile, run: Run, seed: int, told: Callable[[str], None] = lambda _: None
) -> PutBack:
    """Puts a run's best kernels into a model and holds its outputs against the plain model's, for several seeds."""
    operators = {operator.call.key: operator for operator in profile.operators}
    tried = metrics.of_run(run, run.attempts())
    with ExitStack() as stack, fixed(profile.threads):
        kernels: dict[str, Installed] = {}
        others: list[Told] = []
        for one in tried:
            told(f"starting the kernel for {one.task.id}")
            found = install(one, run, operators, stack)
            if isinstance(found, Told):
                others.append(found)
            elif kernels.setdefault(found.match.key, found) is not found:
                others.append(Told(one.task.id, operators[found.match.key], reason="an earlier task is the same call"))
        if not kernels and all(one.operator is None for one in others):
            raise UserError(
                f"none of the {len(tried)} tasks of {run.folder} is an operator of this model; run the tasks that extract writes"
            )
        checked = [check(reference, source, kernels, seed + index, told) for index in range(SEEDS)] if kernels else []
        rows = [row(kernel, operators[key], run) for key, kernel in kernels.items()] + others
    return PutBack(rows, checked, *estimated(profile, rows))


def install(tried: Tried, run: Run, operators: Mapping[str, Operator], stack: ExitStack) -> Installed | Told:
    """The best kernel for a task, built and started; or why torch keeps what it is for."""
    reference = Reference(tried.task.source, tried.task.id)
    sample = reference.sample(0)
    match = alone(reference, sample)
    if match is None or match.key not in operators:
        return Told(tried.task.id, None, reason=SEVERAL if match is None else NOWHERE)
    operator = operators[match.key]
    if tried.best is None:
        return Told(tried.task.id, operator, left=operator.calls, reason="no kernel for it passed all gates")
    config = run.config
    job = Job(
        backend=config.plugin_name("backend"),
        settings=config.plugin_settings("backend"),
        task=tried.task,
        candidate=tried.best.candidate,
        timeout_s=config.timeout_s,
        protocol=config.protocol,
        require_sandbox=config.require_sandbox,
    )
    backend = make_plugin("backend", job.backend, **job.settings)
    if missing := backend.missing():
        raise UserError(f"backend '{job.backend}' of {run.folder} cannot work here: {missing}")
    trial = stack.enter_context(Trial(job, backend, stack.enter_context(scratch())))
    outputs = tuple(to_array(name, tensor) for name, tensor in reference.run(sample))
    installed = Installed(tried, match, trial, sample, outputs)
    try:
        gates.screen(trial)
        gates.build(trial)
        installed.bind()
    except CandidateError as error:
        reason = f"its kernel cannot be started: {error.reason}: {error.detail}"
        return Told(tried.task.id, operator, tried.best.id, left=operator.calls, reason=reason, failed=True)
    except OSError as error:
        raise InfraError(f"the kernel for {tried.task.id} cannot be started: {error}") from error
    return installed


def check(reference: Reference, source: str, kernels: Mapping[str, Installed], seed: int, told: Callable[[str], None]) -> Checked:
    """The model with kernels against the plain one, by the judge's own yardstick."""
    told(f"checking the model with seed {seed}")
    for kernel in kernels.values():
        kernel.replaced = kernel.left = 0
    sample = reference.sample(seed)
    expected = Tolerance(model_task(reference, source, sample), "strict").expected(reference, "bench", "own", sample)
    got = reference.run(replace(sample, module=Watched(sample.module, Replacing(kernels))))
    arrays = [to_array(name, tensor) for name, tensor in got]
    wrong = [array.name for one, array in zip(expected, arrays, strict=True) if one.difference(array.data)]
    worst = max(off(one, array) for one, array in zip(expected, arrays, strict=True))
    return Checked(seed, not wrong, worst, f"wrong: {', '.join(wrong)}" if wrong else "")


def model_task(reference: Reference, source: str, sample: Sample) -> Task:
    """A model as something to be matched; nobody needs its work or other sizes."""
    found = signature(sample, reference.run(sample))
    usual = default_tolerance(found)
    tolerances = [declared(reference, constant, usual) for constant in ("ATOL", "RTOL")]
    return Task(
        id=reference.name,
        family="",
        source=source,
        signature=found,
        work=Work(flops=0, bytes=0),
        sizes={"bench": {}},
        atol=tolerances[0],
        rtol=tolerances[1],
    )


def off(expected: Expected, array: Array) -> float:
    """The largest error of an output, as a share of what is allowed; of integers, the share that is wrong."""
    if array.dtype not in FLOATS:
        return float(np.mean(array.data != expected.array.data))
    values, centre = numbers(array.data, array.dtype), expected.centre
    with np.errstate(all="ignore"):
        shares = np.where(values == centre, 0.0, np.abs(values - centre) / expected.slack)
        same = np.isnan(values) & np.isnan(centre)
    found = float(np.where(same, 0.0, shares).max(initial=0.0))
    return found if np.isfinite(found) else float("inf")


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error of a call, in units of the root mean square of what torch gives."""
    exact = wanted.double()
    finite = exact[exact.isfinite()]
    size = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
    gaps = torch.where((got == wanted) | (got.isnan() & wanted.isnan()), 0.0, (got.double() - exact).abs())
    found = float(gaps.max()) / (size or 1.0) if gaps.numel() else 0.0
    return found if np.isfinite(found) else float("inf")


def row(kernel: Installed, operator: Operator, run: Run) -> Told:
    """What became of a kernel."""
    best, outcome = kernel.tried.best, kernel.tried.outcome
    is_here = all(making["hardware"] == describe_hardware() for making in run.environments())
    known = outcome is not None and outcome.clock in MEASURED and is_here and outcome.latency_us
    return Told(
        task=kernel.tried.task.id,
        operator=operator,
        attempt=best.id if best else "",
        replaced=kernel.replaced,
        left=kernel.left,
        worst=kernel.worst,
        kernel_s=outcome.latency_us * 1e-6 if known and outcome and outcome.latency_us else None,
        reason=kernel.failure or ("" if kernel.replaced else NOWHERE),
        failed=bool(kernel.failure),
    )


def estimated(profile: Profile, rows: Sequence[Told]) -> tuple[float | None, str]:
    """What the model would take: its own time, less what each kernel saves per call."""
    replaced = [one for one in rows if one.replaced and one.operator]
    if not replaced:
        return None, "no kernel was put back"
    if any(one.kernel_s is None for one in replaced):
        return None, "not comparable: the kernels' times are estimates for another device, or were measured on another machine"
    saved = sum(one.replaced * (one.operator.seconds / one.operator.calls - (one.kernel_s or 0.0)) for one in replaced if one.operator)
    return profile.seconds - saved, ""
