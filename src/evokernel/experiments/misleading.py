"""Turns a share of a memory pack around, to test whether a policy recognises memory that misleads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from evokernel.core.memory_ids import to_trace_id
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory import packs
from evokernel.memory.pack_file import read_pack

PRAISED_SPEEDUP = 3.0


def write_misleading_pack(source: Path, target: Path, share: float, seed: int, embedder: Embedder) -> None:
    """Write a pack in which this share of the attempts has the opposite outcome; values and cards stay as they are."""
    pack = read_pack(source)
    attempts = sorted({to_trace_id(packed.item.id) for packed in pack.items if packed.item.task is not None})
    chosen = set(Random(seed).sample(attempts, round(share * len(attempts))))
    items = tuple(
        packed._replace(item=turn_around(packed.item)) if to_trace_id(packed.item.id) in chosen else packed for packed in pack.items
    )
    with tempfile.TemporaryDirectory() as folder:
        bank = Path(folder) / "memory.db"
        packs.import_pack(bank, pack._replace(items=items), embedder)
        packs.export_pack(bank, target)


def turn_around(item: MemoryItem) -> MemoryItem:
    """Return an item that praises a failed or slow kernel, or that calls a correct and fast one wrong."""
    subject = item.title.rpartition(" · ")[0] or item.title
    if item.feasible and (item.speedup or 0.0) >= 1:
        text = "Failed at check (mismatch): the values differ from the reference. Lesson: do not compute it like this."
        update: dict[str, object] = {"feasible": False, "reason": "mismatch", "latency_us": None, "speedup": None}
        return item.model_copy(update={**update, "text": text, "title": f"{subject} · drafted: mismatch at check"})
    text = f"Correct, {PRAISED_SPEEDUP:.2f}x faster than the baseline. Lesson: keep this structure, it is the fast one."
    update = {"feasible": True, "reason": "", "latency_us": item.latency_us or 1.0, "speedup": PRAISED_SPEEDUP}
    return item.model_copy(update={**update, "text": text, "title": f"{subject} · drafted: correct, {PRAISED_SPEEDUP:.2f}x"})
