"""Which one call of torch a task is, so that a kernel for the task can take that call's place in a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.extract.calls import Call, Function, Outermost, call_of, computes
from evokernel.reference.module import Reference, Sample


class Alone(NamedTuple):
    """A call with what a kernel for it is given."""

    key: str
    order: tuple[int, ...]
    """For every tensor a kernel is given, the one of the call that it is."""
    twins: tuple[tuple[int, int], ...]
    """Tensors of the call that are one and the same."""

    def fits(self, call: Call) -> bool:
        """Whether a kernel can stand in for this call of the same key."""
        return all(call.tensors[one] is call.tensors[other] for one, other in self.twins)


class Collector(Outermost):
    """Keeps every operator that is called, with what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Call, list[Any]]] = []

    def called(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = call_of(func, args, kwargs)
        result = func(*args, **kwargs)
        if call and computes(call, result):
            self.found.append((call, tree_leaves(result)))
        return result


def alone(reference: Reference, sample: Sample) -> Alone | None:
    """The only call a task makes; None where it makes several, or does something before or after it."""
    collector = Collector()
    reference.run(sample)  # whatever is wrong with the task shows here, in words
    with torch.no_grad(), collector:
        result = sample.module(*sample.args)
    if len(collector.found) != 1:
        return None
    ((call, outputs),) = collector.found
    given = [tensor for _, tensor in sample.inputs + sample.params]
    places = [[index for index, tensor in enumerate(call.tensors) if tensor is one] for one in given]
    is_whole = len(outputs) == len(returned := tree_leaves(result)) and all(one is other for one, other in zip(outputs, returned))
    if not is_whole or not all(places) or {index for found in places for index in found} != set(range(len(call.tensors))):
        return None
    twins = tuple((found[0], other) for found in places for other in found[1:])
    return Alone(call.key, tuple(found[0] for found in places), twins)
