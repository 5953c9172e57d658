"""Finds the single torch call that a task consists of, so that a kernel for the task can replace that call in a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.module import Reference, Sample
from evokernel.torch_models.calls import Function, OuterCallMode, TorchCall, canonical_call, computes_new_tensor


class SingleCall(NamedTuple):
    """A torch call, and how its tensors map to the arguments of a kernel."""

    key: str
    """Key of the call, see `TorchCall.key`."""
    tensor_order: tuple[int, ...]
    """For every tensor argument of the kernel, the index of the call's tensor."""
    aliases: tuple[tuple[int, int], ...]
    """Pairs of indices of the call's tensors that are the same tensor."""
    call: TorchCall
    """The call in the task, with the task's own tensors."""

    def matches(self, call: TorchCall) -> bool:
        """Return whether a kernel can replace this call, which has the same key."""
        return all(call.tensors[one] is call.tensors[other] for one, other in self.aliases)


class CallCollector(OuterCallMode):
    """Collects every operator call with its results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[TorchCall, list[Any]]] = []

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = canonical_call(func, args, kwargs)
        result = func(*args, **kwargs)
        if call and computes_new_tensor(call, result):
            self.calls.append((call, tree_leaves(result)))
        return result


def find_single_call(reference: Reference, sample: Sample) -> SingleCall | None:
    """Return the only call of a task; None if there are several, or if the task does something before or after the call."""
    collector = CallCollector()
    reference.run(sample)  # errors of the task are reported here
    with torch.no_grad(), collector:
        result = sample.module(*sample.args)
    if len(collector.calls) != 1:
        return None
    ((call, outputs),) = collector.calls
    kernel_tensors = [tensor for _, tensor in sample.inputs + sample.params]
    positions = [[index for index, tensor in enumerate(call.tensors) if tensor is one] for one in kernel_tensors]
    task_outputs = tree_leaves(result)
    returns_all = len(outputs) == len(task_outputs) and all(one is other for one, other in zip(outputs, task_outputs))
    if not returns_all or not all(positions) or {index for indices in positions for index in indices} != set(range(len(call.tensors))):
        return None
    aliases = tuple((indices[0], other) for indices in positions for other in indices[1:])
    return SingleCall(call.key, tuple(indices[0] for indices in positions), aliases, call)
