"""Hill climbing as in autokernel: change the best kernel; keep the change if it is faster, otherwise go back to the best kernel.

- Keep or revert: a refinement becomes the start point only if it is significantly faster than the start point; otherwise the start point
  stays. So latencies of start points never rise, and the search ends in the first local optimum.
- Restart (`patience`, off by default): after this number of refinements in a row that were not kept, an independent draft begins another
  climb, which keeps and reverts by its own kernels. autokernel moves on to another operator there, after 5 reverts.

Choose it for a small budget (about 10 attempts or fewer), or if each single change is worth keeping on its own.
"""

from __future__ import annotations

from random import Random

from evokernel.core.records import Attempt
from evokernel.core.state import State, best_so_far
from evokernel.policies.strategy import Strategy


class HillClimb(Strategy):
    """Refines the best kernel. With `patience` above 0, that many refinements in a row without a gain lead to an independent draft.

    `memory` selects the items of other tasks that the prompt shows, as in every strategy.
    """

    def __init__(self, patience: int = 0, memory: str = "value", budget: int = 30, seed: int = 0) -> None:
        super().__init__(memory, budget, seed)
        if patience < 0:
            raise ValueError(f"patience = {patience} cannot be negative")
        self.patience = patience

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the best kernel of the current climb; None if its last refinements brought nothing faster."""
        climb = self.current_climb(state.attempts)
        bests = best_so_far(climb)
        best = bests[-1]
        is_stuck = 0 < self.patience < len(bests) - bests.index(best)
        return None if is_stuck else best

    def current_climb(self, attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
        """Return the attempts since the latest restart, that is since the latest correct draft; all of them without `patience`."""
        drafts = [index for index, attempt in enumerate(attempts) if attempt.start_point is None and attempt.outcome.feasible]
        return attempts[drafts[-1] :] if self.patience and drafts else attempts


plugin = HillClimb
