"""How much of the local memory the buffers of a stage take, and how many elements fit into each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.ascendc.operand_access import PER_BLOCK, OperandRead

UNIFIED_BUFFER = 192 * 1024
SELECT_RESERVE = 8 * 1024
"""Bytes at the end of local memory that Select uses."""
LIBRARY_RESERVE = 32 * 1024
"""Bytes that library functions take from the free local memory."""
SHIFT_BYTES = 80 * 1024
"""Bytes for the lines of an image that the vector cores write for a convolution on the cube."""
PER_BUFFER = 256 + 32
"""Bytes per buffer for its alignment and for the gap between banks."""
MAX_TILE = 32768
MAX_QUEUE_BUFFERS = 8
"""Buffers of all queues in one direction: each holds one event ID of the hardware."""


class BufferUse(Protocol):
    """The buffers that the steps of a stage need: temporary ones, and those for comparisons and reductions."""

    @property
    def temps(self) -> int: ...

    @property
    def needs(self) -> Collection[str]: ...


@dataclass(frozen=True)
class Room:
    """Bytes for buffers, and how many of them one element takes."""

    total: int
    queued: int
    """Bytes per element of the buffers that copies fill or empty, with all buffers of each queue."""
    fixed: int
    """Bytes per element of the other buffers."""

    @property
    def tile(self) -> int:
        """Elements per buffer if all buffers have the same size."""
        return max(64, min(MAX_TILE, self.total // max(1, self.queued + self.fixed) // 64 * 64))


def measure_room(
    d: Choice, reads: Sequence[OperandRead], T_out: str, steps: BufferUse, uses_library: bool, shared: int = 0, is_stored: bool = True
) -> Room:
    """The room of a stage that copies these operands in and one result out; `shared` further float buffers hold values between passes.

    `is_stored` says whether the result has as many elements as a tile.
    """
    depth = int(d.get("depth", "2")) if d.get("staging", "queue") == "queue" else 1
    kinds = [r.T for r in reads] + ([T_out] if is_stored else [])
    queued = sum(depth * 32 // PER_BLOCK[T] for T in kinds)
    floats = steps.temps + shared + sum(T != "float" for T in kinds) + ("work" in steps.needs)
    fixed = 4 * floats + 2 * ("uint8_t" in kinds) + ("bits" in steps.needs)
    buffers = len(kinds) * depth + floats + 6
    reserve = (SELECT_RESERVE if "bits" in steps.needs else 0) + (LIBRARY_RESERVE if uses_library else 0)
    return Room(UNIFIED_BUFFER - reserve - buffers * PER_BUFFER - 4096, queued, fixed)
