"""Contextual value: shows the set of items from which a model of features and records expects the largest gain, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import numpy as np

from evokernel.core.memory_ids import is_nothing_id, make_trace_id
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, ItemRole, MemoryItem, Propensity, Stage
from evokernel.core.state import State
from evokernel.policies import reference_cards, refinement, retrieval
from evokernel.policies.choice_probability import multiply_probabilities, set_probability
from evokernel.policies.item_features import Features, ItemDescriber, describe_state
from evokernel.policies.value_model import Draws, ValueModel, load_observations, record_observation


@dataclass(frozen=True)
class SetSelector(retrieval.Selector):
    """Picks a set greedily: the item with the largest drawn gain given those already chosen, until no item is drawn to gain anything."""

    describer: ItemDescriber = field(kw_only=True)
    model: ValueModel = field(kw_only=True)
    width: float = field(kw_only=True)
    """How far draws lie from the mean, in standard deviations; 0 picks by the expected gain."""
    draws: int = field(kw_only=True)
    """Repeated draws that estimate the probability of a choice; 0 to record none."""
    draw_seed: str = field(kw_only=True)
    cause: str = ""
    chosen: dict[str, Features] = field(default_factory=dict)
    """Features of the chosen items when they were chosen, shared by all places of a context."""
    shown: list[MemoryItem] = field(default_factory=list)

    def for_cause(self, cause: str) -> SetSelector:
        """Return the selector for items that are to help with a cause of latency."""
        return replace(self, cause=cause)

    def pick_items(self, pool: Sequence[MemoryItem], n: int) -> list[MemoryItem]:
        """Pick at most n items; fewer, or the choice to show nothing, if the next item is drawn to gain nothing."""
        nothing = [item for item in pool if is_nothing_id(item.id)]
        candidates = {item.id: item for item in pool if not is_nothing_id(item.id)}
        picks: list[MemoryItem] = []
        while candidates and len(picks) < n:
            draws = self.model.draw(self.random, self.width, list(candidates))
            (best,) = self.choose_next(candidates, picks, draws)
            if not best:
                break
            self.chosen[best] = self.describe(candidates[best], picks)
            picks.append(candidates[best])
        if self.draws and self.width:
            self.probabilities.append(self.estimate_probability(candidates, picks, n))
        self.shown.extend(picks)
        return [*picks, *nothing[: n - len(picks)]]

    def choose_next(self, candidates: Mapping[str, MemoryItem], picks: Sequence[MemoryItem], draws: Draws) -> list[str]:
        """Return the id of the next item in each draw, empty if no item is drawn to gain anything."""
        gains = self.model.gains(draws, [self.describe(item, picks) for item in candidates.values()])
        ids = list(candidates)
        gains[:, [ids.index(item.id) for item in picks]] = -np.inf
        return [ids[best] if gains[row, best] > 0 else "" for row, best in enumerate(gains.argmax(axis=1))]

    def estimate_probability(self, candidates: Mapping[str, MemoryItem], picks: Sequence[MemoryItem], n: int) -> float:
        """Return how probable this set was. Repeated draws estimate every step, with fixed seeds: equal runs record equal numbers."""
        random = Random(f"{self.draw_seed}/{len(self.probabilities)}")
        draws = self.model.draw(random, self.width, list(candidates), self.draws)

        @cache
        def choose_after(chosen: frozenset[str]) -> Counter[str]:
            return Counter(self.choose_next(candidates, [item for item in picks if item.id in chosen], draws))

        def step(chosen: frozenset[str], id: str) -> float:
            options = len(candidates) - len(chosen) + 1  # the empty id stands for the end of the set
            return (choose_after(chosen)[id] + 1 / options) / (self.draws + 1)

        ids = [item.id for item in picks]
        end = step(frozenset(ids), "") if len(ids) < min(n, len(candidates)) else 1.0
        return end * set_probability(ids, step)

    @property
    def propensity(self) -> Propensity | None:
        """The estimated probability of all choices so far."""
        return multiply_probabilities(self.probabilities, self.draws)

    def describe(self, item: MemoryItem, picks: Sequence[MemoryItem]) -> dict[str, float]:
        """Return the features of an item that would be shown after these picks and those of earlier places."""
        return self.describer.describe(item, [*self.shown, *picks], self.cause)

    def to_context_items(self, role: ItemRole, items: Iterable[MemoryItem]) -> list[ContextItem]:
        """Wrap items for a context; a chosen item has its expected gain as value, with the reasons for it."""
        entries = super().to_context_items(role, items)
        return [self.explain_entry(entry) if entry.item.id in self.chosen else entry for entry in entries]

    def explain_entry(self, entry: ContextItem) -> ContextItem:
        """Return a chosen item with its features, its expected gain and the contributions of the features to it."""
        features = self.chosen[entry.item.id]
        reasons = self.model.explain(entry.item.id, features)
        return entry.model_copy(update={"features": dict(features), "reasons": reasons, "q": round(sum(reasons.values()), 6)})


class ContextualPolicy:
    """Q(s, m) = what the features of task and item predict + what the item earned beyond that, shrunk towards 0.

    One model per backend and stage is the posterior of a Bayesian linear regression over all attempts in memory. It also predicts for an
    item that was never shown. A set is chosen greedily by marginal gain with Thompson sampling: draws lie far from the mean while the
    model is uncertain, and close to it later. The refined kernel is the fastest one.

    Retrieval
        `top_n`: most items in a context. `pool_factor`: size of the candidate pool in multiples of `top_n`. `part_cards`, `api_cards`,
        `card_chars`: reference cards, as in the policy `value`.
    Model
        `record_visits`: an item's own record counts half after this number of showings. `prior_visits`: as in the policy `value`, for
        the mean rewards that are stored with the items and serve as a feature. `exploration_scale`: width of the draws in standard
        deviations; 0 always shows what is expected to be best. `propensity_draws`: repeated draws that estimate how probable each choice
        was, for offline evaluation; 0 records nothing.
    """

    def __init__(
        self,
        top_n: int = 4,
        pool_factor: float = 4.0,
        api_cards: int = 3,
        part_cards: int = 12,
        card_chars: int = reference_cards.CARD_CHARS,
        record_visits: float = 8.0,
        prior_visits: float = 20.0,
        exploration_scale: float = 0.5,
        propensity_draws: int = 128,
        seed: int = 0,
    ) -> None:
        if min(top_n, api_cards, part_cards, card_chars, prior_visits, exploration_scale, propensity_draws) < 0:
            names = "top_n, api_cards, part_cards, card_chars, prior_visits, exploration_scale and propensity_draws"
            raise ValueError(f"{names} cannot be negative")
        if pool_factor < 1 or record_visits <= 0:
            raise ValueError(f"pool_factor = {pool_factor} must be at least 1, and record_visits = {record_visits} above 0")
        self.top_n, self.pool_size = top_n, max(top_n, round(top_n * pool_factor))
        self.api_cards, self.part_cards, self.card_chars = api_cards, part_cards, card_chars
        self.record_visits, self.prior_visits, self.exploration_scale = record_visits, prior_visits, exploration_scale
        self.propensity_draws, self.seed = propensity_draws, seed

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Draft until a kernel is feasible, then refine the fastest kernel."""
        return self.build_context(state, memory, state.best)

    def build_context(self, state: State, memory: MemoryStore, start: Attempt | None) -> Context:
        """Build the context that refines a start point, or drafts without one."""
        selector = self.make_selector(state, memory, start)
        if start is None:
            return retrieval.draft_context(
                state, memory, selector, self.top_n, self.pool_size, self.api_cards, self.part_cards, self.card_chars
            )
        return refinement.refine_context(state, memory, selector, start, self.top_n, self.pool_size, self.part_cards, self.card_chars)

    def make_selector(self, state: State, memory: MemoryStore, start: Attempt | None) -> SetSelector:
        """Return what picks a set of items with a draw from the model of this stage."""
        stage = Stage.REFINE if start else Stage.DRAFT
        describer = ItemDescriber(state, memory, start)
        observations = load_observations(memory, describer.backend, stage)
        return SetSelector(
            q_values=lambda ids: {id: value.q for id, value in memory.values(ids, stage).items()},
            random=Random(f"{self.seed}/{state.next_id}"),
            diversity_penalty=1.0,  # the pool covers all parts of the operator, with successes and failures
            describer=describer,
            model=ValueModel(stage, observations, describer.similarities, self.record_visits),
            width=self.exploration_scale,
            draws=self.propensity_draws,
            draw_seed=f"{self.seed}/{state.next_id}/propensity",
        )

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Add the attempt to the observations of the model, and its reward to the mean rewards of the items that it was shown."""
        start = next((earlier for earlier in state.attempts if earlier.id == attempt.start_point), None)
        record_observation(memory, attempt, describe_state(state, start))
        ids = {ref.id for ref in attempt.shown_items if ref.role not in ("api", "nothing")}
        if attempt.start_point:
            ids.add(make_trace_id(attempt.run, attempt.start_point))
        visits = {id: value.visits for id, value in memory.values(sorted(ids), attempt.stage).items()}
        for count in sorted(set(visits.values())):
            rewards = {id: attempt.reward for id in visits if visits[id] == count}
            memory.update(attempt.id, attempt.stage, rewards, 1 / (count + 1 + self.prior_visits))


plugin = ContextualPolicy
