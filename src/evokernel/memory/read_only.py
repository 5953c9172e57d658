"""A memory as it was: what a run adds is there for the task it came from, found by nobody else, and no value changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evokernel.core.protocols import ItemValue, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Stage
from evokernel.memory.bank import Bank


class Frozen:
    """A bank (a MemoryStore) that a run uses and does not learn into."""

    def __init__(self, bank: Bank) -> None:
        self.bank, self.added = bank, 0

    def add(self, items: Iterable[MemoryItem]) -> None:
        """A task's own kernels are shown to it by their ids, whatever memory holds."""
        items = list(items)
        self.added += sum(item.task is not None for item in items)
        self.bank.add(items)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        return self.bank.get(ids)

    def search(
        self,
        query: str,
        k: int,
        kinds: Sequence[MemoryKind] = (),
        *,
        task: str | None = None,
        bottleneck: str | None = None,
        feasible: bool | None = None,
    ) -> list[SearchHit]:
        """The k nearest that were there when the run began."""
        own = f"{self.bank.run}:"
        hits = self.bank.search(query, k + self.added, kinds, task=task, bottleneck=bottleneck, feasible=feasible)
        return [hit for hit in hits if not hit.item.id.startswith(own)][:k]

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        return self.bank.values(ids, stage, scope)

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Nothing."""

    def close(self) -> None:
        self.bank.close()
