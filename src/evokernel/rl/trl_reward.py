"""A reward function with the signature that TRL's GRPOTrainer calls: whole batches, verified in parallel."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from evokernel.core.errors import UserError
from evokernel.rl.scoring import Completion, CompletionScorer, ScoredCompletion

log = logging.getLogger(__name__)


class KernelReward:
    """`GRPOTrainer(reward_funcs=KernelReward("cpp", workers=8), ...)`. The data set needs the column `task`, and may have `backend`.

    A completion whose verification failed for reasons of the infrastructure gets None, which the trainer leaves out.
    """

    def __init__(
        self, backend: str = "cpp", *, workers: int = 0, size: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.scorer = CompletionScorer(backend, workers=workers, size=size, settings=settings)
        self.__name__ = "kernel_reward"
        self.last_batch: list[ScoredCompletion] = []
        """What the latest call verified, in the order of its completions."""

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        completion_ids: Sequence[Any] | None = None,
        *,
        task: Sequence[str] | None = None,
        backend: Sequence[str | None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return one reward for each completion; `task` and `backend` are columns of the data set. Raises UserError without `task`."""
        if task is None:
            raise UserError("the data set has no column 'task'. Use load_task_splits, or add a column such as 'starter/softmax'.")
        self.last_batch = self.scorer.score(completions, task, backend or [None] * len(completions))
        for scored in self.last_batch:
            if scored.error:
                log.warning("no reward for a kernel of %s: %s", scored.task.id, scored.error)
        return [scored.reward for scored in self.last_batch]

    def close(self) -> None:
        """Stop the workers."""
        self.scorer.close()
