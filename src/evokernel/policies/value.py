"""Value-driven retrieval (the method): retrieve the most similar items, then pick epsilon-greedily by the stage's Q."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log, sqrt, tanh
from random import Random

from evokernel.core.memory_ids import make_trace_id
from evokernel.core.opportunities import addressed_cause
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, Stage
from evokernel.core.state import State
from evokernel.policies import reference_cards, refinement, retrieval

Schedule = float | list[list[float]]
EXPLORATION_RULES = ("epsilon", "optimistic", "thompson")
VALUE_SCOPES = ("item", "family", "bottleneck")
CREDIT_DEPTH = 3
"""Number of generations back that `credit_decay` passes a reward."""


class RewardNormalizer:
    """Running mean and deviation of rewards, and rewards scaled by them (PopArt-style, with the safeguards that a z-score needs)."""

    def __init__(self, warmup: int, sigma_floor: float, clip: float) -> None:
        self.warmup, self.sigma_floor, self.clip = warmup, sigma_floor, clip
        self.count, self.mean, self.sum_of_squares = 0, 0.0, 0.0

    @property
    def sigma(self) -> float:
        """The standard deviation so far, at least `sigma_floor`."""
        return max(sqrt(self.sum_of_squares / self.count), self.sigma_floor) if self.count else self.sigma_floor

    def normalise(self, reward: float) -> float:
        """Update the statistics first, as PopArt does, then return the normalised, clipped reward; the raw reward during warm-up."""
        self.count += 1
        delta = reward - self.mean
        self.mean += delta / self.count
        self.sum_of_squares += delta * (reward - self.mean)
        if self.count <= self.warmup:
            return reward
        return min(max((reward - self.mean) / self.sigma, -self.clip), self.clip)


class ValuePolicy:
    """mu(c | s, M): picks memory items and start points by learned value.

    The policy holds only the reward statistics. Values live in memory, so replaying a journal rebuilds everything.

    Retrieval
        `top_n` (N): valued items in a context. `pool_factor` (lambda): size of the candidate pool in multiples of `top_n`; a number or a
        schedule [[round, value], ...]. `part_cards`: most cards on the parts of the operator (a refinement has at most 8). `api_cards`:
        further API cards in a draft. `card_chars`: most characters of these cards, besides static cards and worked examples.
    Values
        `alpha`: learning rate of Eq. 4. `q0_draft`, `q0_refine`: initial values; with `q0_draft = 1` an item counts as good until a draft
        that showed it fails. `prior_visits`: drafting values are means that are pulled towards q0 as if by this many visits, because the
        success of a draft says little about each item that it showed (0: Eq. 4 with a constant alpha).
        `value_scope = "family"`: an item has a value per task family, pulled towards its overall value as if by `shrinkage_visits` visits.
        `value_scope = "bottleneck"`: in refining, an item has a value per cause of latency in the same way; a reward counts for the cause
        that the refinement addressed.
        `credit_decay`: share of the learning rate that each earlier generation receives, that is the items shown to the generator of a
        shown item (0: off).
    Choice
        `similarity_weight`: initial deduction for the least similar item of the pool. `success_bonus`: initial advantage of correct
        kernels over failures. `diversity_penalty`: deduction for each picked item of the same task, or of the same family and outcome
        (docs/adr/0025, 0031 and 0032).
        `exploration`: `epsilon` picks at random with a probability that falls linearly from `epsilon` to `epsilon_end` over `budget`
        attempts; `optimistic` adds `exploration_scale` / sqrt(1 + visits) to each value; `thompson` draws each value from a normal
        distribution of that width. `start_patience`: refinements of the fastest kernel that may bring nothing faster; after them, and with
        0 always, values decide the start point, with `latency_weight` as the weight of its latency gap to the best kernel (0: Q2 alone).
    Reward normalisation (refining only)
        `warmup`: raw rewards first. `sigma_floor`: smallest deviation. `clip`: largest normalised reward.
    """

    def __init__(
        self,
        top_n: int = 4,
        pool_factor: Schedule = 4,
        api_cards: int = 3,
        part_cards: int = 12,
        card_chars: int = reference_cards.CARD_CHARS,
        epsilon: float = 0.05,
        epsilon_end: float = 0.02,
        alpha: float = 0.3,
        q0_draft: float = 0.0,
        q0_refine: float = 0.0,
        value_scope: str = "item",
        shrinkage_visits: float = 4.0,
        latency_weight: float = 1.0,
        start_patience: int = 3,
        prior_visits: float = 20.0,
        similarity_weight: float = 0.1,
        success_bonus: float = 0.2,
        diversity_penalty: float = 0.3,
        exploration: str = "epsilon",
        exploration_scale: float = 0.5,
        credit_decay: float = 0.0,
        warmup: int = 8,
        sigma_floor: float = 0.1,
        clip: float = 3.0,
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        counts = (top_n, api_cards, part_cards, card_chars, warmup, start_patience)
        require("top_n, api_cards, part_cards, card_chars, warmup and start_patience cannot be negative", min(counts) >= 0)
        require(
            f"epsilon = {epsilon} and epsilon_end = {epsilon_end} must lie between 0 and 1", 0 <= epsilon <= 1 and 0 <= epsilon_end <= 1
        )
        require(f"alpha = {alpha} must be above 0 and at most 1", 0 < alpha <= 1)
        require(f"value_scope = '{value_scope}' must be one of {', '.join(VALUE_SCOPES)}", value_scope in VALUE_SCOPES)
        require("shrinkage_visits, sigma_floor and clip must be above 0", min(shrinkage_visits, sigma_floor, clip) > 0)
        require(f"exploration = '{exploration}' must be one of {', '.join(EXPLORATION_RULES)}", exploration in EXPLORATION_RULES)
        not_negative = {
            "latency_weight": latency_weight,
            "prior_visits": prior_visits,
            "similarity_weight": similarity_weight,
            "success_bonus": success_bonus,
            "diversity_penalty": diversity_penalty,
            "exploration_scale": exploration_scale,
        }
        for name, value in not_negative.items():
            require(f"{name} = {value} cannot be negative", value >= 0)
        require(f"credit_decay = {credit_decay} must be 0, or at least 0.01 and below 1", credit_decay == 0 or 0.01 <= credit_decay < 1)
        self.top_n, self.pool_schedule = top_n, parse_schedule(pool_factor)
        self.api_cards, self.part_cards, self.card_chars = api_cards, part_cards, card_chars
        self.epsilon, self.epsilon_end, self.alpha = epsilon, epsilon_end, alpha
        self.q0 = {Stage.DRAFT: q0_draft, Stage.REFINE: q0_refine}
        self.value_scope, self.shrinkage_visits, self.latency_weight = value_scope, shrinkage_visits, latency_weight
        self.start_patience = start_patience
        self.prior_visits, self.similarity_weight = prior_visits, similarity_weight
        self.success_bonus, self.diversity_penalty = success_bonus, diversity_penalty
        self.exploration, self.exploration_scale, self.credit_decay = exploration, exploration_scale, credit_decay
        self.warmup, self.sigma_floor, self.clip = warmup, sigma_floor, clip
        self.budget, self.seed = budget, seed
        self.normalizers: dict[str, RewardNormalizer] = {}
        """Statistics of the refinement rewards, per backend."""

    @property
    def by_cause(self) -> bool:
        """Whether items have a value per cause of latency."""
        return self.value_scope == "bottleneck"

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Draft until a kernel is feasible, then refine a start point chosen by Q2."""
        selector = self.make_selector(state, memory, Stage.REFINE if state.start_points else Stage.DRAFT)
        start = self.choose_start_point(state, memory, selector) if state.start_points else None
        return self.fill_context(state, memory, selector, start)

    def build_context(self, state: State, memory: MemoryStore, start: Attempt | None) -> Context:
        """Build the context that refines a start point, or drafts without one."""
        return self.fill_context(state, memory, self.make_selector(state, memory, Stage.REFINE if start else Stage.DRAFT), start)

    def make_selector(self, state: State, memory: MemoryStore, stage: Stage) -> retrieval.Selector:
        """Return what picks items by their value at a stage, and in drafting by similarity, success and diversity too."""
        random = Random(f"{self.seed}/{state.next_id}")
        family = state.task.family if self.value_scope == "family" else ""
        selector = retrieval.Selector(
            q_values=lambda ids: self.q_values(ids, stage, family, memory),
            random=random,
            epsilon=self.current_epsilon(len(state.attempts)) if self.exploration == "epsilon" else 0.0,
            exploration_bonus=lambda ids: self.exploration_bonus(ids, stage, memory, random),
            cause_values=(lambda cause: lambda ids: self.q_values(ids, stage, cause_scope(cause), memory)) if self.by_cause else None,
        )
        if stage is Stage.REFINE:
            return selector
        return replace(
            selector,
            diversity_penalty=self.diversity_penalty,
            similarity_weight=self.similarity_weight,
            success_bonus=self.success_bonus,
        )

    def fill_context(self, state: State, memory: MemoryStore, selector: retrieval.Selector, start: Attempt | None) -> Context:
        """Fill a context with items that the selector picks."""
        pool_size = max(self.top_n, round(self.top_n * self.current_pool_factor(state.round)))  # K = lambda N
        if start is None:
            return retrieval.draft_context(state, memory, selector, self.top_n, pool_size, self.api_cards, self.part_cards, self.card_chars)
        return refinement.refine_context(state, memory, selector, start, self.top_n, pool_size, self.part_cards, self.card_chars)

    def choose_start_point(self, state: State, memory: MemoryStore, selector: retrieval.Selector) -> Attempt:
        """Choose p in P(x): the fastest kernel; after `start_patience` refinements of it, by Q2 in this state.

        A start point earned its rewards relative to the best kernel of that time. Relative to the present best b_t, leaving p unchanged
        would earn tanh(log b_t - log l_p). Without this term, the policy keeps refining a slow kernel that was improved once, instead of
        the faster kernels derived from it, which have no visits yet. Ties go to the fastest kernel.
        """
        fastest_first = sorted(state.start_points, key=lambda attempt: attempt.outcome.latency_us or float("inf"))
        if sum(attempt.start_point == fastest_first[0].id for attempt in state.attempts) < self.start_patience:
            return fastest_first[0]
        attempts_by_id = {attempt.memory_id: attempt for attempt in fastest_first}

        def q_values(ids: Sequence[str]) -> Mapping[str, float]:
            return {
                id: q + self.latency_weight * latency_gap(attempts_by_id[id], fastest_first[0]) for id, q in selector.q_values(ids).items()
            }

        picks = replace(selector, q_values=q_values, probabilities=[]).pick_items(memory.get(list(attempts_by_id)), 1)
        return attempts_by_id[picks[0].id] if picks else fastest_first[0]

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Apply Eq. 4 to every valued item that the prompt showed, to the choice to show nothing, and to the start point."""
        reward = attempt.reward
        if attempt.stage is Stage.REFINE:
            normalizer = RewardNormalizer(self.warmup, self.sigma_floor, self.clip)
            reward = self.normalizers.setdefault(attempt.candidate.backend, normalizer).normalise(reward)
        rewards = {ref.id: reward for ref in attempt.shown_items if ref.role != "api"}
        if attempt.start_point:
            rewards[make_trace_id(attempt.run, attempt.start_point)] = reward
        for scope in dict.fromkeys(("", self.learning_scope(state, attempt))):
            self.apply_update(attempt, rewards, memory, scope=scope)
        for depth, ids in enumerate(self.ancestor_items(list(rewards), memory), start=1):
            self.apply_update(attempt, dict.fromkeys(ids, reward), memory, self.credit_decay**depth)

    def learning_scope(self, state: State, attempt: Attempt) -> str:
        """Return the scope that learns from an attempt besides the overall values: its family, or the cause that it addressed."""
        if self.value_scope == "family":
            return state.task.family
        start = next((earlier for earlier in state.attempts if earlier.id == attempt.start_point), None) if self.by_cause else None
        return cause_scope(addressed_cause(start.outcome, attempt.outcome)) if start else ""

    def apply_update(
        self, attempt: Attempt, rewards: Mapping[str, float], memory: MemoryStore, share: float = 1.0, scope: str = ""
    ) -> None:
        """Apply Eq. 4 at `share` of the learning rate, which depends on each item's visits."""
        visits = {id: value.visits for id, value in memory.values(list(rewards), attempt.stage, scope).items()}
        for count in sorted(set(visits.values())):
            same_rate = {id: reward for id, reward in rewards.items() if visits[id] == count}
            memory.update(attempt.id, attempt.stage, same_rate, share * self.learning_rate(attempt.stage, count), scope)

    def learning_rate(self, stage: Stage, visits: int) -> float:
        """Alpha of the next update of an item with this number of visits."""
        return self.alpha if stage is Stage.REFINE or not self.prior_visits else 1 / (visits + 1 + self.prior_visits)

    def prior_weight(self, stage: Stage, visits: int) -> float:
        """Weight that the initial value still has after this number of visits.

        Eq. 4 is linear: a value that began at 0 becomes the value that began at q0 by adding q0 times this weight.
        """
        if stage is Stage.REFINE or not self.prior_visits:
            return (1 - self.alpha) ** visits
        return self.prior_visits / (self.prior_visits + visits)

    def ancestor_items(self, ids: list[str], memory: MemoryStore) -> Iterator[list[str]]:
        """Yield the items that were shown when these items were generated, then the items shown for those, one generation at a time."""
        visited = set(ids)
        for _ in range(CREDIT_DEPTH if self.credit_decay else 0):
            parents = dict.fromkeys(id for item in memory.get(ids) for id in item.shown_items if id not in visited)
            ids = [item.id for item in memory.get(list(parents))]
            visited.update(ids)
            if ids:
                yield ids

    def exploration_bonus(self, ids: Sequence[str], stage: Stage, memory: MemoryStore, random: Random) -> Mapping[str, float]:
        """Return what exploration adds to each value: the uncertainty itself (`optimistic`) or a normal draw of that width (`thompson`)."""
        if self.exploration == "epsilon":
            return {}
        widths = {id: self.exploration_scale / sqrt(1 + value.visits) for id, value in memory.values(ids, stage).items()}
        return widths if self.exploration == "optimistic" else {id: random.gauss(0, width) for id, width in widths.items()}

    def q_values(self, ids: Sequence[str], stage: Stage, scope: str, memory: MemoryStore) -> Mapping[str, float]:
        """Return Q(s, m) of each item: overall, or in a scope (a family or a cause), pulled towards the overall value."""
        overall = {id: value.q + self.q0[stage] * self.prior_weight(stage, value.visits) for id, value in memory.values(ids, stage).items()}
        if self.value_scope == "item" or not scope:
            return overall
        in_scope = memory.values(ids, stage, scope=scope)
        pull = self.shrinkage_visits
        return {id: (v.visits * v.q + pull * overall[id]) / (v.visits + pull) for id, v in in_scope.items()}

    def current_epsilon(self, attempts: int) -> float:
        """Epsilon after this number of attempts on the task."""
        progress = min(1.0, attempts / max(1, self.budget - 1))
        return self.epsilon + (self.epsilon_end - self.epsilon) * progress

    def current_pool_factor(self, round: int) -> float:
        """Lambda in a round: the value of the last schedule step that has begun."""
        return next((value for first_round, value in reversed(self.pool_schedule) if first_round <= round), self.pool_schedule[0][1])


def cause_scope(cause: str) -> str:
    """Return the scope of the values for a cause of latency; families have no prefix. Empty if the cause is unknown."""
    return f"cause:{cause}" if cause else ""


def latency_gap(start: Attempt, best: Attempt) -> float:
    """Eq. 6 for the start point itself: 0 for the best kernel, near -1 for a very slow kernel, -1 for one without a latency."""
    slow, fast = start.outcome.latency_us, best.outcome.latency_us
    if not fast:
        return 0.0
    return tanh(log(fast) - log(slow)) if slow else -1.0


def require(message: str, condition: bool) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def parse_schedule(pool_factor: Schedule) -> list[tuple[float, float]]:
    """Return the schedule as (first round, value) pairs in order of rounds; a single number applies from the first round."""
    pairs = [[0, pool_factor]] if isinstance(pool_factor, int | float) else pool_factor
    message = f"pool_factor = {pool_factor} must be a number of at least 1, or a schedule [[round, number], ...]"
    require(message, bool(pairs) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs))
    require(message, all(isinstance(number, int | float) for pair in pairs for number in pair) and all(pair[1] >= 1 for pair in pairs))
    return sorted((pair[0], pair[1]) for pair in pairs)


plugin = ValuePolicy
