"""Value-driven retrieval, the method: dense top-K, then epsilon-greedy over the stage's Q."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log, sqrt, tanh
from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, Stage, State
from evokernel.policies import retrieval

Schedule = float | list[list[float]]
SELECT = ("epsilon", "optimistic", "thompson")
DEPTH = 3
"""Steps back that credit goes."""


class RewardNormalizer:
    """Mean and deviation so far, and rewards put on their scale (PopArt-style, with the safeguards a z-score needs)."""

    def __init__(self, warmup: int, sigma_floor: float, clip: float) -> None:
        self.warmup, self.sigma_floor, self.clip = warmup, sigma_floor, clip
        self.n, self.mean, self.squares = 0, 0.0, 0.0

    @property
    def sigma(self) -> float:
        """The deviation, never below its floor."""
        return max(sqrt(self.squares / self.n), self.sigma_floor) if self.n else self.sigma_floor

    def normalise(self, reward: float) -> float:
        """Takes the reward into the statistics first, as PopArt does; raw while warming up, clipped after that."""
        self.n += 1
        delta = reward - self.mean
        self.mean += delta / self.n
        self.squares += delta * (reward - self.mean)
        if self.n <= self.warmup:
            return reward
        return min(max((reward - self.mean) / self.sigma, -self.clip), self.clip)


class ValuePolicy:
    """mu(c | s, M). It holds only running statistics; values live in memory, so learning a journal again rebuilds everything.

    `items` is N and `widen` is lambda, a number or a schedule [[round, value], ...]; `epsilon` falls linearly to `epsilon_end` over
    `budget` attempts. With `state = "family"` an item's value is that within the task's family, drawn towards its overall value as
    by `shrink` visits. `handicap` weighs how far a start point lies behind the best kernel of the moment; with 0, Q2 alone decides.

    `q0_draft` and `q0_refine` are what items nobody was shown are worth. With `q0_draft = 1`, items are believed in until a draft that
    saw them fails.

    Whether a draft succeeds says little about each thing it was shown. So values of drafting are means, drawn towards q0 as by `settle`
    visits (0: Eq. 4 with a constant alpha); the farthest of the pool begins `nearness` below the nearest, and a correct kernel `proven`
    above what failed; and each item of the same task, or of its family and ended alike, is worth `variety` less than the one before
    (docs/adr/0025, 0031 and 0032).

    `select` says how what was seldom tried gets its chance: `epsilon` by chance, `optimistic` by adding `bonus` / sqrt(1 + visits),
    `thompson` by drawing so far around the value. With `credit`, rewards also reach what the writers of shown items were shown, and so on,
    each step back with that share of the rate before.
    """

    def __init__(
        self,
        items: int = 4,
        widen: Schedule = 4,
        apis: int = 3,
        epsilon: float = 0.05,
        epsilon_end: float = 0.02,
        alpha: float = 0.3,
        q0_draft: float = 0.0,
        q0_refine: float = 0.0,
        state: str = "item",
        shrink: float = 4.0,
        handicap: float = 1.0,
        settle: float = 20.0,
        nearness: float = 0.1,
        proven: float = 0.2,
        variety: float = 0.3,
        select: str = "epsilon",
        bonus: float = 0.5,
        credit: float = 0.0,
        warmup: int = 8,
        sigma_floor: float = 0.1,
        clip: float = 3.0,
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        require("items, apis and warmup cannot be negative", min(items, apis, warmup) >= 0)
        require(
            f"epsilon = {epsilon} and epsilon_end = {epsilon_end} must lie between 0 and 1", 0 <= epsilon <= 1 and 0 <= epsilon_end <= 1
        )
        require(f"alpha = {alpha} must be above 0 and at most 1", 0 < alpha <= 1)
        require(f"state = '{state}' must be 'item' or 'family'", state in ("item", "family"))
        require("shrink, sigma_floor and clip must be above 0", min(shrink, sigma_floor, clip) > 0)
        require(f"select = '{select}' must be one of {', '.join(SELECT)}", select in SELECT)
        least = min(handicap, settle, nearness, proven, variety, bonus)
        require("handicap, settle, nearness, proven, variety and bonus cannot be negative", least >= 0)
        require(f"credit = {credit} must be 0, or at least 0.01 and below 1", credit == 0 or 0.01 <= credit < 1)
        self.items, self.apis, self.widen = items, apis, parse_schedule(widen)
        self.epsilon, self.epsilon_end, self.alpha = epsilon, epsilon_end, alpha
        self.q0 = {Stage.DRAFT: q0_draft, Stage.REFINE: q0_refine}
        self.by_family, self.shrink, self.handicap = state == "family", shrink, handicap
        self.settle, self.nearness, self.proven, self.variety = settle, nearness, proven, variety
        self.select, self.bonus, self.credit = select, bonus, credit
        self.warmup, self.sigma_floor, self.clip = warmup, sigma_floor, clip
        self.budget, self.seed = budget, seed
        self.running: dict[str, RewardNormalizer] = {}
        """Statistics of the refining rewards, per backend."""

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Drafts until something is feasible, then refines a start point chosen by Q2."""
        stage = Stage.REFINE if state.start_points else Stage.DRAFT
        random = Random(f"{self.seed}/{state.next_id}")
        selector = retrieval.Selector(
            q_values=lambda ids: self.worth(ids, stage, state.task.family, memory),
            random=random,
            epsilon=self.current_epsilon(len(state.attempts)) if self.select == "epsilon" else 0.0,
            exploration_bonus=lambda ids: self.exploration_bonus(ids, stage, memory, random),
        )
        pool = max(self.items, round(self.items * self.current_pool_factor(state.round)))  # K = lambda N
        if stage is Stage.DRAFT:
            selector = replace(selector, variety=self.variety, nearness=self.nearness, proven=self.proven)
            return retrieval.draft(state, memory, selector, self.items, pool, self.apis)
        return retrieval.refine(state, memory, selector, self.choose_start_point(state, memory, selector), self.items, pool)

    def choose_start_point(self, state: State, memory: MemoryStore, selector: retrieval.Selector) -> Attempt:
        """p in P(x) by Q2 in this state; ties go to the fastest.

        What a start point earned, it earned against the best of its day. Now that the best is b_t, leaving p as it is would earn
        tanh(log b_t - log l_p): without this term a slow kernel that was once improved upon is refined again and again, before the
        faster ones made from it, which nobody has tried yet.
        """
        fastest_first = sorted(state.start_points, key=lambda attempt: attempt.outcome.latency_us or float("inf"))
        attempts_by_id = {attempt.memory_id: attempt for attempt in fastest_first}

        def q_values(ids: Sequence[str]) -> Mapping[str, float]:
            return {id: q + self.handicap * latency_gap(attempts_by_id[id], fastest_first[0]) for id, q in selector.q_values(ids).items()}

        chosen = replace(selector, q_values=q_values).pick(memory.get(list(attempts_by_id)), 1)
        return attempts_by_id[chosen[0].id] if chosen else fastest_first[0]

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Eq. 4 for every valued item that was shown, and for the start point."""
        reward = attempt.reward
        if attempt.stage is Stage.REFINE:
            scale = RewardNormalizer(self.warmup, self.sigma_floor, self.clip)
            reward = self.running.setdefault(attempt.candidate.backend, scale).normalise(reward)
        rewards = {shown.id: reward for shown in attempt.shown_items if shown.role != "api"}
        if attempt.start_point:
            rewards[f"{attempt.run}:{attempt.start_point}"] = reward
        for scope in ("", state.task.family) if self.by_family and state.task.family else ("",):
            self.apply_update(attempt, rewards, memory, scope=scope)
        for depth, ids in enumerate(self.ancestor_items(list(rewards), memory), start=1):
            self.apply_update(attempt, dict.fromkeys(ids, reward), memory, self.credit**depth)

    def apply_update(
        self, attempt: Attempt, rewards: Mapping[str, float], memory: MemoryStore, share: float = 1.0, scope: str = ""
    ) -> None:
        """Eq. 4, at the rate that each item's visits leave."""
        visits = {id: value.visits for id, value in memory.values(list(rewards), attempt.stage, scope).items()}
        for count in sorted(set(visits.values())):
            alike = {id: reward for id, reward in rewards.items() if visits[id] == count}
            memory.update(attempt.id, attempt.stage, alike, share * self.learning_rate(attempt.stage, count), scope)

    def learning_rate(self, stage: Stage, visits: int) -> float:
        """Alpha for the next of so many visits."""
        return self.alpha if stage is Stage.REFINE or not self.settle else 1 / (visits + 1 + self.settle)

    def prior_weight(self, stage: Stage, visits: int) -> float:
        """What is left of where a value began. Eq. 4 is linear, so a value that began at 0 becomes one that began at q0 by adding that."""
        return (1 - self.alpha) ** visits if stage is Stage.REFINE or not self.settle else self.settle / (self.settle + visits)

    def ancestor_items(self, ids: list[str], memory: MemoryStore) -> Iterator[list[str]]:
        """What the writers of these items were shown, then what theirs were: how they came about, a step back at a time."""
        met = set(ids)
        for _ in range(DEPTH if self.credit else 0):
            before = dict.fromkeys(id for item in memory.get(ids) for id in item.shown_items if id not in met)
            ids = [item.id for item in memory.get(list(before))]
            met.update(ids)
            if ids:
                yield ids

    def exploration_bonus(self, ids: Sequence[str], stage: Stage, memory: MemoryStore, random: Random) -> Mapping[str, float]:
        """How far what was seldom tried may lie above its value (`optimistic`), or either side of it by chance (`thompson`)."""
        if self.select == "epsilon":
            return {}
        spread = {id: self.bonus / sqrt(1 + value.visits) for id, value in memory.values(ids, stage).items()}
        return spread if self.select == "optimistic" else {id: random.gauss(0, width) for id, width in spread.items()}

    def worth(self, ids: Sequence[str], stage: Stage, family: str, memory: MemoryStore) -> Mapping[str, float]:
        """Q(s, m) for each item."""
        overall = {id: value.q + self.q0[stage] * self.prior_weight(stage, value.visits) for id, value in memory.values(ids, stage).items()}
        if not (self.by_family and family):
            return overall
        local = memory.values(ids, stage, scope=family)
        return {id: (v.visits * v.q + self.shrink * overall[id]) / (v.visits + self.shrink) for id, v in local.items()}

    def current_epsilon(self, attempts: int) -> float:
        """Epsilon after so many attempts on the task."""
        done = min(1.0, attempts / max(1, self.budget - 1))
        return self.epsilon + (self.epsilon_end - self.epsilon) * done

    def current_pool_factor(self, round: int) -> float:
        """Lambda in a round: the last step that has begun."""
        return next((value for begins, value in reversed(self.widen) if begins <= round), self.widen[0][1])


def latency_gap(start: Attempt, best: Attempt) -> float:
    """Eq. 6 for a start point itself: 0 for the best, towards -1 for the hopelessly slow and the untimed."""
    slow, fast = start.outcome.latency_us, best.outcome.latency_us
    if not fast:
        return 0.0
    return tanh(log(fast) - log(slow)) if slow else -1.0


def require(message: str, holds: bool) -> None:
    """Refuses a setting."""
    if not holds:
        raise ValueError(message)


def parse_schedule(widen: Schedule) -> list[tuple[float, float]]:
    """A schedule in order of rounds; a single number holds from the first."""
    pairs = [[0, widen]] if isinstance(widen, int | float) else widen
    message = f"widen = {widen} must be a number of at least 1, or a schedule [[round, number], ...]"
    require(message, bool(pairs) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs))
    require(message, all(isinstance(number, int | float) for pair in pairs for number in pair) and all(pair[1] >= 1 for pair in pairs))
    return sorted((pair[0], pair[1]) for pair in pairs)


plugin = ValuePolicy
