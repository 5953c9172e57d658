"""What a perfect kernel has to do, counted while the reference runs.

Operations: matrix products, convolutions and fused attention by torch's own formulas (a multiply-add is two); any other operator counts
one per element of its largest tensor, be it an addition, a reduction or an exponential; views, copies, gathers and fills count none.
What the reference computes and then masks counts, too: a kernel that skips it needs fewer.
Bytes: inputs and parameters read once, outputs written once; what the reference keeps in between is not compulsory. A table that is only
gathered from counts with what was taken from it, a tensor nothing reads does not count.
Beside them: the terms of the longest sum, and the bytes that are alive at once while PyTorch computes.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from evokernel.core.records import Work
from evokernel.reference.data_movement_ops import MOVES
from evokernel.reference.module import Named, Reference, Sample
from evokernel.reference.reduction_length import tensors, terms

GATHERS = frozenset({"embedding", "gather", "index", "index_select"})
"""Operators that read from their first tensor no more than they give back."""


class Counter(TorchDispatchMode):  # type: ignore[misc]
    """Adds up operations, and bytes read from each storage, as the reference dispatches them."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would load its compiler, for seconds, only to keep it away from here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.terms = 0.0, 1.0
        self.alive, self.peak = 0, 0
        self.reads: dict[int, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and counts it."""
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        packet = func._overloadpacket
        given, made = tensors((args, kwargs)), tensors(result)
        self.terms = max(self.terms, terms(func, args, given, made))
        self.hold(made, {storage(tensor) for tensor in given})
        for i, tensor in enumerate(given):
            few = i == 0 and packet.__name__ in GATHERS
            self.reads[storage(tensor)] += sum(map(size_bytes, made)) if few else size_bytes(tensor)
        if packet in flop_registry:
            self.flops += float(flop_registry[packet](*args, **(kwargs or {}), out_val=result))
        elif packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu":
            self.flops += attention_flops(*args[:3])
        elif packet.__name__ == "mkldnn_rnn_layer":
            self.flops += recurrent_flops(*args[:3])
        elif packet.__name__ not in MOVES:
            self.flops += max((tensor.numel() for tensor in given + made), default=0)
        return result

    def hold(self, made: list[torch.Tensor], known: set[int]) -> None:
        """Counts tensors while somebody holds them."""
        for tensor in made:
            if storage(tensor) not in known:
                self.alive += size_bytes(tensor)
                weakref.finalize(tensor, self.drop, size_bytes(tensor)).atexit = False
        self.peak = max(self.peak, self.alive)

    def drop(self, size: int) -> None:
        """A tensor is gone."""
        self.alive -= size


def storage(tensor: torch.Tensor) -> int:
    """What views of one tensor have in common."""
    return int(tensor.untyped_storage()._cdata)


def size_bytes(tensor: torch.Tensor) -> int:
    """The bytes a tensor's elements take."""
    return int(tensor.numel() * tensor.element_size())


def attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> float:
    """Two products for every query head: scores, and the weighted sum of values."""
    *heads, queries, depth = query.shape
    return float(2 * math.prod(heads) * queries * key.shape[-2] * (depth + value.shape[-1]))


def recurrent_flops(steps: torch.Tensor, inwards: torch.Tensor, onwards: torch.Tensor) -> float:
    """The two products of every step, of the input and of the state before it."""
    return float(2 * steps.numel() / steps.shape[-1] * (inwards.numel() + onwards.numel()))


def counted(reference: Reference, sample: Sample) -> tuple[Work, tuple[Named, ...]]:
    """Operations and compulsory bytes of one call, the longest sum in it, and the memory it takes; and what it gave."""
    counter = Counter()
    outputs = reference.run(sample, watch=counter)
    held = sum(size_bytes(tensor) for _, tensor in sample.inputs + sample.params)
    read = sum(min(size_bytes(tensor), counter.reads[storage(tensor)]) for _, tensor in sample.inputs + sample.params)
    written = sum(size_bytes(tensor) for _, tensor in outputs)
    return Work(
        flops=counter.flops, bytes=float(read + written), reduction_length=counter.terms, peak_bytes=float(held + counter.peak)
    ), outputs
