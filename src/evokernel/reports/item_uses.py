"""How a run used its memory items: how often prompts showed each, with which results, and for which best kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evokernel.core.records import ContextRef
from evokernel.reports.metrics import TaskResult


@dataclass
class ItemUse:
    """The attempts of a run whose prompts showed a memory item."""

    ref: ContextRef
    """The item where it was shown last."""
    shown: int = 0
    correct: int = 0
    rewards: list[float] = field(default_factory=list)
    best_tasks: list[str] = field(default_factory=list)
    """Tasks whose best kernel was written with the item in the prompt."""

    @property
    def mean_reward(self) -> float:
        """Mean reward of the attempts that were shown the item."""
        return sum(self.rewards) / len(self.rewards)


def count_item_uses(results: Sequence[TaskResult]) -> list[ItemUse]:
    """Return the uses of every item that a prompt showed, those behind most best kernels first.

    Items without a value come last: every prompt shows them, so they tell nothing.
    """
    uses: dict[str, ItemUse] = {}
    for result in results:
        for attempt in result.attempts:
            for ref in {ref.id: ref for ref in attempt.shown_items if ref.role != "nothing"}.values():
                use = uses.setdefault(ref.id, ItemUse(ref))
                use.ref, use.shown = ref, use.shown + 1
                use.correct += result.is_correct(attempt)
                use.rewards.append(attempt.reward)
                if attempt is result.best:
                    use.best_tasks.append(result.task.id)
    return sorted(uses.values(), key=lambda use: (use.ref.q is None, -len(use.best_tasks), -use.mean_reward, -use.shown, use.ref.id))
