"""Counts the minimum work of a kernel while the reference runs.

Operations: matrix products, convolutions and fused attention follow torch's formulas (a multiply-add is two). Any other operator counts
one per element of its largest tensor, be it an addition, a reduction or an exponential. Views, copies, gathers and fills count none.
Values that the reference computes and then masks count too; a kernel that skips them needs fewer operations.
Bytes: inputs and parameters are read once, outputs are written once; intermediate results are not compulsory. A table that is only
gathered from counts with the gathered bytes, and a tensor that nothing reads does not count.
In addition: the number of terms in the longest sum, and the peak memory while PyTorch computes.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.core.records import Work
from evokernel.reference.data_movement_ops import DATA_MOVEMENT_OPS
from evokernel.reference.module import NamedTensor, Reference, Sample
from evokernel.reference.reduction_length import call_reduction_length, collect_tensors

GATHERS = frozenset({"embedding", "gather", "index", "index_select"})
"""Operators that read no more bytes from their first tensor than they return."""


class WorkCounter(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that counts operations and the bytes read from each storage."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise torch would load its compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.reduction_length = 0.0, 1.0
        self.live_bytes, self.peak_bytes = 0, 0
        self.bytes_read: dict[int, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count its work."""
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        packet = func._overloadpacket
        inputs, outputs = collect_tensors((args, kwargs)), collect_tensors(result)
        self.reduction_length = max(self.reduction_length, call_reduction_length(func, args, inputs, outputs))
        self.track_allocations(outputs, {storage_id(tensor) for tensor in inputs})
        for i, tensor in enumerate(inputs):
            reads_few = i == 0 and packet.__name__ in GATHERS
            self.bytes_read[storage_id(tensor)] += sum(map(size_bytes, outputs)) if reads_few else size_bytes(tensor)
        if (flops := count_product_flops(func, args, kwargs or {}, result)) is not None:
            self.flops += flops
        elif packet.__name__ not in DATA_MOVEMENT_OPS:
            self.flops += max((tensor.numel() for tensor in inputs + outputs), default=0)
        return result

    def track_allocations(self, outputs: list[torch.Tensor], input_storages: set[int]) -> None:
        """Add new tensors to the live bytes until they are freed."""
        for tensor in outputs:
            if storage_id(tensor) not in input_storages:
                self.live_bytes += size_bytes(tensor)
                weakref.finalize(tensor, self.release_bytes, size_bytes(tensor)).atexit = False
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def release_bytes(self, size: int) -> None:
        """Subtract the bytes of a freed tensor."""
        self.live_bytes -= size


def count_product_flops(func: Any, args: Any, kwargs: Any, result: Any) -> float | None:
    """Count the operations of a matrix product, a convolution, fused attention or a recurrent layer; None for other operators."""
    packet = func._overloadpacket
    if packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu":
        return attention_flops(*args[:3])
    if packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return 2.5 * attention_flops(*args[1:4])  # five products instead of two
    if packet.__name__ == "mkldnn_rnn_layer":
        return recurrent_flops(*args[:3])
    if packet.__name__ in DATA_MOVEMENT_OPS or {torch.Tag.pointwise, torch.Tag.reduction}.intersection(func.tags):
        return None
    from torch.utils.flop_counter import flop_registry  # loads Triton where it is installed

    return float(flop_registry[packet](*args, **kwargs, out_val=result)) if packet in flop_registry else None


def storage_id(tensor: torch.Tensor) -> int:
    """Return an id that all views of one tensor share."""
    return int(tensor.untyped_storage()._cdata)


def size_bytes(tensor: torch.Tensor) -> int:
    """Return the size of a tensor's elements in bytes."""
    return int(tensor.numel() * tensor.element_size())


def attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> float:
    """Count the two matrix products per query head: the scores, and the weighted sum of values."""
    *heads, queries, depth = query.shape
    return float(2 * math.prod(heads) * queries * key.shape[-2] * (depth + value.shape[-1]))


def recurrent_flops(steps: torch.Tensor, inwards: torch.Tensor, onwards: torch.Tensor) -> float:
    """Count the two matrix products per step: with the input, and with the previous state."""
    return float(2 * steps.numel() / steps.shape[-1] * (inwards.numel() + onwards.numel()))


def count_work(reference: Reference, sample: Sample) -> tuple[Work, tuple[NamedTensor, ...]]:
    """Run the reference once; return operations, compulsory bytes, longest sum and peak memory, together with the outputs."""
    counter = WorkCounter()
    outputs = reference.run(sample, context=counter)
    held_bytes = sum(size_bytes(tensor) for _, tensor in sample.inputs + sample.params)
    read_bytes = sum(min(size_bytes(tensor), counter.bytes_read[storage_id(tensor)]) for _, tensor in sample.inputs + sample.params)
    written_bytes = sum(size_bytes(tensor) for _, tensor in outputs)
    return Work(
        flops=counter.flops,
        bytes=float(read_bytes + written_bytes),
        reduction_length=counter.reduction_length,
        peak_bytes=float(held_bytes + counter.peak_bytes),
    ), outputs
