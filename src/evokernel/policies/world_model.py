"""A world model as in K-Search: an explicit list of hypotheses about what bounds the kernel, kept up to date by what came of them.

Properties:

- There is one hypothesis for each cause of latency that the profile of a correct kernel names, with the gain that the profile predicts.
- A prediction is corrected by the outcomes: by the share of earlier predictions for the cause that came true, and by how often such
  refinements were correct. Few outcomes count little. So a cause whose predicted gains never come true loses its rank.
- The search goes on with the hypothesis that leads to the lowest expected latency: it decides the start point and the cause to address.
- The prompt names the hypothesis and what is expected of it, and shows the memory items for its cause first.

The list depends on the attempts alone: `evokernel.core.hypotheses.rank_hypotheses` returns it, and reports show it.
"""

from __future__ import annotations

from random import Random

from evokernel.core.hypotheses import Rank, rank_hypotheses
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, Hypothesis
from evokernel.core.state import State
from evokernel.policies.strategy import Strategy


class WorldModel(Strategy):
    """Addresses the cause of latency of which it expects most; refines the best kernel if no cause promises a faster one."""

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the kernel of the best hypothesis, or the best kernel."""
        rank = best_hypothesis(state)
        return rank.start if rank else state.best

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Add the best hypothesis to the context of its start point."""
        context, rank = super().choose(state, memory), best_hypothesis(state)
        return focus_context(context, rank.hypothesis) if rank else context


def best_hypothesis(state: State) -> Rank | None:
    """Return the hypothesis that leads to the lowest expected latency; None if none promises a kernel faster than the best."""
    best_us = state.best.outcome.latency_us if state.best else None
    ranks = rank_hypotheses(state)
    return ranks[0] if best_us and ranks and ranks[0].latency_us < best_us else None


def focus_context(context: Context, hypothesis: Hypothesis) -> Context:
    """Name the hypothesis in a context and move the items that help with its cause to the front."""
    items = tuple(sorted(context.items, key=lambda entry: entry.cause != hypothesis.cause))
    return context.model_copy(update={"items": items, "focus": hypothesis})


plugin = WorldModel
