"""The device memory that a verification needs, computed from shapes before anything is allocated."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from evokernel.core.records import Task, Tensor

USABLE_SHARE = 0.94
"""Share of a GPU's memory that a verification may use; contexts and libraries take the rest."""
CHUNK_BYTES, MAX_CHUNK_ELEMENTS, FLUSH_BYTES = 64, 1 << 25, 256 << 20
"""Bytes for each element of a chunk that is compared, its largest number of elements, and the buffer that empties the cache."""
MIN_BOX_BYTES = 2 << 30
"""The least memory for a reference that is computed in boxes."""
KERNELS = 2
"""Kernels with tensors of their own while times are measured: candidate and best kernel so far."""
FLOAT64_BYTES = 8
ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


class MemoryPlan(NamedTuple):
    """What the two gates at the timed size hold in device memory, in bytes."""

    check_bytes: int
    """The check without the reference's intermediate results: inputs, outputs and expected outputs in both precisions."""
    reference_bytes: int
    """One call of the reference in float64, at once."""
    timing_bytes: int

    @property
    def least_bytes(self) -> int:
        """The memory without which the task cannot be verified: the reference is computed in boxes."""
        return max(self.check_bytes + min(self.reference_bytes, MIN_BOX_BYTES), self.timing_bytes)

    def is_whole(self, capacity_bytes: float) -> bool:
        """Whether the reference can run at once in float64."""
        return self.check_bytes + self.reference_bytes <= capacity_bytes


def plan_memory(task: Task) -> MemoryPlan:
    """Compute the memory of a task's timed size."""
    signature = task.signature
    arguments, outputs = (*signature.inputs, *signature.params), signature.outputs
    argument_bytes, output_bytes = sum(tensor.nbytes for tensor in arguments), sum(tensor.nbytes for tensor in outputs)
    wide_output_bytes = sum(tensor.nbytes * widening(tensor) for tensor in outputs)
    peak_bytes = int(max(task.work.peak_bytes, argument_bytes + output_bytes))
    most_widening = max((widening(tensor) for tensor in (*arguments, *outputs)), default=1)
    redraw_bytes = 3 * max((tensor.nbytes * widening(tensor) for tensor in signature.inputs), default=0)
    kernel_bytes = argument_bytes + output_bytes
    most_elements = max(prod(tensor.shape) for tensor in outputs)
    chunk_bytes = CHUNK_BYTES * min(most_elements, MAX_CHUNK_ELEMENTS) + FLUSH_BYTES
    return MemoryPlan(
        check_bytes=kernel_bytes + argument_bytes + 3 * output_bytes + wide_output_bytes + chunk_bytes,
        reference_bytes=max(most_widening * peak_bytes, redraw_bytes),
        timing_bytes=KERNELS * kernel_bytes + 3 * argument_bytes + 2 * output_bytes + peak_bytes + chunk_bytes,
    )


def widening(tensor: Tensor) -> int:
    """Return how many times larger a tensor is in float64."""
    return FLOAT64_BYTES // ELEMENT_BYTES.get(tensor.dtype, FLOAT64_BYTES)


def describe_shortage(task: Task, total_bytes: int) -> str:
    """Return how much device memory a verification needs and how much there is, if that is too little; otherwise an empty text."""
    needed_bytes = plan_memory(task).least_bytes
    if not total_bytes or needed_bytes <= USABLE_SHARE * total_bytes:
        return ""
    return (
        f"about {needed_bytes / 1e9:.3g} GB of device memory, but the GPU has {total_bytes / 1e9:.3g} GB, "
        f"of which {USABLE_SHARE:.0%} can be used"
    )
