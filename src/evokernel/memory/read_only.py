"""A memory bank that a run reads and does not learn into: searches find only items from before the run, and no value changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evokernel.core.protocols import ItemValue, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.bank_view import BankView


class ReadOnlyBank:
    """A wrapper around a bank (implements MemoryStore) that ignores value updates and hides the run's own items from searches."""

    def __init__(self, bank: Bank) -> None:
        self.bank, self.added_count = bank, 0

    def add(self, items: Iterable[MemoryItem]) -> None:
        """Add items that only `get` returns: a task's own kernels are shown to it by their ids."""
        items = list(items)
        self.added_count += sum(item.task is not None for item in items)
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
        """The k nearest items that existed when the run began."""
        own = f"{self.bank.run}:"
        hits = self.bank.search(query, k + self.added_count, kinds, task=task, bottleneck=bottleneck, feasible=feasible)
        return [hit for hit in hits if not hit.item.id.startswith(own)][:k]

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        return self.bank.values(ids, stage, scope)

    def scoped_values(self, id: str, stage: Stage) -> dict[str, ItemValue]:
        return self.bank.scoped_values(id, stage)

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Do nothing: values do not change."""

    def freeze(self) -> BankView:
        """The bank as it is now, without the run's own items in searches."""
        return self.bank.freeze().hide_run(self.bank.run, self.added_count)

    def close(self) -> None:
        self.bank.close()
