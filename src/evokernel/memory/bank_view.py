"""A memory bank as it was at one moment, for readers on other threads than the one that learns."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from evokernel.core.protocols import ItemValue, MemoryReader, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Stage


class BankView:
    """Reads a copy of a bank that nothing changes (implements MemoryReader). `hidden_run`: a run whose items searches do not find."""

    def __init__(self, bank: MemoryReader, lock: threading.Lock, hidden_run: str = "", hidden_count: int = 0) -> None:
        self.bank, self.lock, self.hidden_run, self.hidden_count = bank, lock, hidden_run, hidden_count

    def hide_run(self, run: str, count: int) -> BankView:
        """The same view, in which searches do not find the `count` items of a run."""
        return BankView(self.bank, self.lock, run, count)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        with self.lock:
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
        """The k nearest items that existed when the view was made."""
        with self.lock:
            hits = self.bank.search(query, k + self.hidden_count, kinds, task=task, bottleneck=bottleneck, feasible=feasible)
        return [hit for hit in hits if not (self.hidden_run and hit.item.id.startswith(f"{self.hidden_run}:"))][:k]

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        with self.lock:
            return self.bank.values(ids, stage, scope)

    def scoped_values(self, id: str, stage: Stage) -> dict[str, ItemValue]:
        with self.lock:
            return self.bank.scoped_values(id, stage)
