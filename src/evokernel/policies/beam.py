"""Beam search, as in KernelAgent: the best kernels are refined side by side, level by level.

The first level is made of drafts that are independent of each other. Each further level refines the kernels of the beam, that is the
`width` fastest different kernels when the level begins, fastest first, `branching` times each. So the search follows several kernels
at a time, and the attempts of a level are shared equally among them.

- A start point is always one of the `width` fastest kernels at the beginning of its level; other kernels are never refined again.
- A kernel and its refinements compete for the same places: a kernel that no refinement beats stays in the beam, and a level can only
  replace it by a faster one. So the slowest kernel of a full beam never becomes slower.
- Identical kernels take one place. Kernels that are merely similar take one each, so a beam can fill with relatives of the best one.
- With `width = 1` and `branching = 1` it is hill climbing.

Choose it if drafts differ in how far they can be refined, and the budget has room for several levels (about 5 times `width` or more).
"""

from __future__ import annotations

from random import Random

from evokernel.core.records import Attempt
from evokernel.core.state import State
from evokernel.policies.kernels import rank_kernels
from evokernel.policies.strategy import Strategy

BUDGET_PER_DRAFT = 4
"""The first level has at most one draft for each 4 attempts of the budget."""


class Beam(Strategy):
    """Refines the `width` fastest different kernels in turn, `branching` times per level.

    A small budget has fewer drafts than `width`: one of four attempts at most. A failed draft counts, unless no kernel is correct yet.
    `memory` selects the items of other tasks that the prompt shows, as in every strategy.
    """

    def __init__(self, width: int = 3, branching: int = 1, memory: str = "value", budget: int = 30, seed: int = 0) -> None:
        super().__init__(memory, budget, seed)
        if min(width, branching) < 1:
            raise ValueError(f"width = {width} and branching = {branching} must be at least 1")
        self.width, self.branching = width, branching
        self.draft_count = max(1, min(width, budget // BUDGET_PER_DRAFT))

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the kernel whose turn it is in the current level; None in the level of drafts."""
        level = self.plan_level(state)
        return level[0] if level else None

    def plan_level(self, state: State) -> list[Attempt]:
        """Return the start points that the current level still has to refine, in order; none if the next attempt drafts.

        Levels follow each other in the attempts: each takes one attempt per start point, and the next level begins after the last one.
        """
        begin = self.draft_count
        while begin <= len(state.attempts):
            beam = rank_kernels(state.attempts[:begin])[: self.width]
            level = [kernel for kernel in beam for _ in range(self.branching)]
            if begin + len(level) > len(state.attempts):
                return level[len(state.attempts) - begin :]
            begin += max(1, len(level))  # without a correct kernel the attempt was another draft
        return []


plugin = Beam
