"""Replaces calls of a PyTorch model by a run's exported operators, in this process: only verified kernels that are faster.

A kernel replaces a call if its task consists of one torch call that means the same, with the same shapes, dtypes and other arguments: that
call was timed. All other calls stay torch's.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import TreeSpec, tree_leaves, tree_unflatten

from evokernel.core.errors import UserError
from evokernel.core.paths import cache_folder
from evokernel.core.run import Run
from evokernel.reference.module import Reference
from evokernel.reports import metrics
from evokernel.reports.delivery import compare_speed
from evokernel.reports.export import export_kernels, find_wrapper, prepare_export
from evokernel.reports.metrics import TaskResult
from evokernel.torch_models.call_meaning import CallMeaning, describe_meaning, short_name, shorten
from evokernel.torch_models.calls import Function, OuterCallMode, TorchCall, canonical_call
from evokernel.torch_models.kernel_substitution import NOT_CALLED, NOT_SINGLE_CALL, call_error
from evokernel.torch_models.replacement import Replacement
from evokernel.torch_models.single_call import find_single_call

NO_KERNEL = "no kernel for it passed every gate"
NEEDS_GRADIENTS = "gradients are needed: call the model under torch.no_grad()"
SAME_CALL = "an earlier task is the same call"


class ReadyOperator(NamedTuple):
    """An operator that can replace calls."""

    tensor_order: tuple[int, ...]
    """For every tensor argument of the operator, the index of the call's tensor."""
    aliases: tuple[tuple[int, int], ...]
    """Pairs of indices of the call's tensors that must be the same tensor."""
    operator: Any
    """The `TorchOperator` of the exported package."""
    numbers: tuple[float, ...]
    replacement: Replacement

    def find_obstacle(self, call: TorchCall) -> str:
        """Return why torch must compute a call of the same key; an empty text if the operator can."""
        if not all(call.tensors[one] is call.tensors[other] for one, other in self.aliases):
            return "the task has one tensor in two places of the call"
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in call.tensors):
            return NEEDS_GRADIENTS
        device = self.operator.kernel.DEVICE
        others = {tensor.device.type for tensor in call.tensors} - {device}
        return f"a tensor is on {others.pop()}, the kernel takes {device} tensors" if others else ""

    def compute(self, call: TorchCall, form: TreeSpec) -> Any:
        """Compute a call with the operator; an in-place call writes into its tensor."""
        outputs = self.operator.call(*(call.tensors[index] for index in self.tensor_order), *self.numbers)
        if call.target is not None:
            return call.tensors[call.target].copy_(outputs)
        return tree_unflatten([outputs] if isinstance(outputs, torch.Tensor) else list(outputs), form)


class OperatorTable:
    """The operators of a model by what they compute, and which calls were found to mean the same."""

    def __init__(self) -> None:
        self.by_meaning: dict[CallMeaning, ReadyOperator] = {}
        self.by_key: dict[str, tuple[ReadyOperator, TreeSpec] | None] = {}
        self.names: set[str] = set()

    def add(self, meaning: CallMeaning, name: str, operator: ReadyOperator) -> bool:
        """Add an operator for the calls that mean this; return False if there is one already."""
        self.names.add(shorten(name))
        return self.by_meaning.setdefault(meaning, operator) is operator

    def find(self, call: TorchCall) -> tuple[ReadyOperator, TreeSpec] | None:
        """Return the operator for a call and the structure of the call's result; None if no operator computes it."""
        if call.key not in self.by_key:
            described = describe_meaning(call)
            operator = self.by_meaning.get(described[0]) if described else None
            self.by_key[call.key] = (operator, described[1]) if operator and described else None
        return self.by_key[call.key]


class OperatorMode(OuterCallMode):
    """A torch function mode in which operators compute the calls that they are for."""

    def __init__(self, table: OperatorTable) -> None:
        super().__init__()
        self.table = table

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if short_name(func) not in self.table.names:
            return func(*args, **kwargs)
        call = canonical_call(func, args, kwargs)
        ready = self.table.find(call) if call else None
        if call is None or ready is None:
            return func(*args, **kwargs)
        operator, form = ready
        if obstacle := operator.find_obstacle(call):
            operator.replacement.torch_calls[obstacle] += 1
            return func(*args, **kwargs)
        result = operator.compute(call, form)
        operator.replacement.replaced_calls += 1
        return result


class ReplacedModel(NamedTuple):
    """A model with operators in the place of calls, and what became of each task of the run."""

    model: torch.nn.Module
    results: list[Replacement]


def replace_calls(model: torch.nn.Module, run: Run) -> ReplacedModel:
    """Return a copy of the model that shares all parameters and submodules with it, and whose calls use the run's faster kernels."""
    table, results, loader = OperatorTable(), [], OperatorLoader(run)
    for result in metrics.collect_results(run, run.attempts()):
        replacement = Replacement(result.task.id)
        results.append(replacement)
        loader.prepare(result, replacement, table)
    return ReplacedModel(with_operators(model, table) if table.by_meaning else model, results)


def with_operators(model: torch.nn.Module, table: OperatorTable) -> torch.nn.Module:
    """Return a shallow copy of the model whose forward pass runs under the mode; the model itself does not change."""
    clone = copy.copy(model)
    own_forward = model.__dict__.get("forward")
    forward: Callable[..., Any] = own_forward or MethodType(type(model).forward, clone)

    def forward_with_operators(*args: Any, **kwargs: Any) -> Any:
        with OperatorMode(table):
            return forward(*args, **kwargs)

    clone.forward = forward_with_operators
    return clone


class OperatorLoader:
    """Exports the faster kernels of a run once and loads them as PyTorch operators."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.package: ModuleType | None = None

    def prepare(self, result: TaskResult, replacement: Replacement, table: OperatorTable) -> None:
        """Add the operator of a task to the table; without one, the reason is in `replacement`."""
        comparison = compare_speed(result.best_outcome)
        replacement.speed = comparison.describe() if result.best else ""
        if not comparison.is_faster:
            replacement.reason = f"not faster: {comparison.describe()}" if result.best else NO_KERNEL
            return
        reference = Reference(result.task.source, result.task.id)
        sample = reference.sample(0)
        match = find_single_call(reference, sample)
        described = describe_meaning(match.call) if match else None
        if match is None or described is None:
            replacement.reason = NOT_SINGLE_CALL
            return
        operator = self.load(prepare_export(result).name)
        try:
            operator.kernel.prepare()
        except RuntimeError as error:
            replacement.reason = f"the kernel cannot be built here: {error}"
            return
        numbers = tuple(scalar.value for scalar in sample.scalars)
        ready = ReadyOperator(match.tensor_order, match.aliases, operator, numbers, replacement)
        if table.add(described[0], match.call.name, ready):
            replacement.operator = operator.label
        else:
            replacement.reason = SAME_CALL

    def load(self, name: str) -> Any:
        """Return the operator of this name. Raises UserError if the backend's kernels cannot be called from PyTorch."""
        if self.package is None:
            backend = self.run.config.plugin_name("backend")
            if find_wrapper(backend) is None:
                raise UserError(f"kernels of backend '{backend}' cannot be called from PyTorch: it has no wrapper.")
            self.package = load_package(*export_once(self.run))
        return self.package.OPERATORS[name]


def export_once(run: Run) -> tuple[Path, str]:
    """Export the faster kernels of a run into the cache; return the folder and the package's name, which follow from the kernels."""
    attempts = run.attempts()
    bests = [(one.task.id, one.best.candidate.id) for one in metrics.collect_results(run, attempts) if one.best]
    digest = hashlib.sha256(repr((run.config.id, bests)).encode()).hexdigest()[:12]
    folder, package = cache_folder() / "operators" / digest, f"evokernel_run_{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{digest}."))
        export_kernels(run, attempts, part, package=package)
        with suppress(OSError):  # another process was faster
            os.rename(part, folder)
        shutil.rmtree(part, ignore_errors=True)
    return folder, package


def load_package(folder: Path, name: str) -> ModuleType:
    """Import an exported package; a process imports it once, because PyTorch registers an operator only once."""
    if name in sys.modules:
        return sys.modules[name]
    path = folder / name
    spec = importlib.util.spec_from_file_location(name, path / "__init__.py", submodule_search_locations=[str(path)])
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check_outputs(original: torch.nn.Module, replaced: ReplacedModel, inputs: Sequence[Any]) -> float:
    """Run both models on the same inputs; return the largest error in units of the output's root mean square, and mark unused kernels."""
    with torch.no_grad():
        expected, outputs = (tree_leaves(model(*inputs)) for model in (original, replaced.model))
    for one in replaced.results:
        if one.operator and not one.replaced_calls and not one.torch_calls:
            one.operator, one.reason = "", NOT_CALLED
    pairs = [(one, other) for one, other in zip(outputs, expected, strict=True) if isinstance(other, torch.Tensor)]
    return max((call_error(one, other) for one, other in pairs), default=0.0)
