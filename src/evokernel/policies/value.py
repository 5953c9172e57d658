"""Value-driven retrieval, the method: dense top-K, then epsilon-greedy over the stage's Q."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, sqrt, tanh
from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, Stage, State
from evokernel.policies import retrieval

Schedule = float | list[list[float]]


class Running:
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

    `q0_draft` and `q0_refine` are what items nobody was shown are worth. At 0, an item that a successful draft has seen comes before
    nearer ones that none has; with `q0_draft = 1`, items are believed in until a draft that saw them fails.
    """

    def __init__(
        self,
        items: int = 4,
        widen: Schedule = 4,
        apis: int = 3,
        epsilon: float = 0.2,
        epsilon_end: float = 0.05,
        alpha: float = 0.3,
        q0_draft: float = 0.0,
        q0_refine: float = 0.0,
        state: str = "item",
        shrink: float = 4.0,
        handicap: float = 1.0,
        warmup: int = 8,
        sigma_floor: float = 0.1,
        clip: float = 3.0,
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        check("items, apis and warmup cannot be negative", min(items, apis, warmup) >= 0)
        check(f"epsilon = {epsilon} and epsilon_end = {epsilon_end} must lie between 0 and 1", 0 <= epsilon <= 1 and 0 <= epsilon_end <= 1)
        check(f"alpha = {alpha} must be above 0 and at most 1", 0 < alpha <= 1)
        check(f"state = '{state}' must be 'item' or 'family'", state in ("item", "family"))
        check("shrink, sigma_floor and clip must be above 0", min(shrink, sigma_floor, clip) > 0)
        check(f"handicap = {handicap} cannot be negative", handicap >= 0)
        self.items, self.apis, self.widen = items, apis, steps(widen)
        self.epsilon, self.epsilon_end, self.alpha = epsilon, epsilon_end, alpha
        self.q0 = {Stage.DRAFT: q0_draft, Stage.REFINE: q0_refine}
        self.by_family, self.shrink, self.handicap = state == "family", shrink, handicap
        self.warmup, self.sigma_floor, self.clip = warmup, sigma_floor, clip
        self.budget, self.seed = budget, seed
        self.running: dict[str, Running] = {}
        """Statistics of the refining rewards, per backend."""

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Drafts until something is feasible, then refines a start point chosen by Q2."""
        stage = Stage.REFINE if state.starts else Stage.DRAFT
        selector = retrieval.Selector(
            worth=lambda ids: self.worth(ids, stage, state.task.family, memory),
            random=Random(f"{self.seed}/{state.next_id}"),
            epsilon=self.exploration(len(state.attempts)),
        )
        pool = max(self.items, round(self.items * self.widening(state.round)))  # K = lambda N
        if stage is Stage.DRAFT:
            return retrieval.draft(state, memory, selector, self.items, pool, self.apis)
        return retrieval.refine(state, memory, selector, self.start(state, memory, selector), self.items, pool)

    def start(self, state: State, memory: MemoryStore, selector: retrieval.Selector) -> Attempt:
        """p in P(x) by Q2 in this state; ties go to the fastest.

        What a start point earned, it earned against the best of its day. Now that the best is b_t, leaving p as it is would earn
        tanh(log b_t - log l_p): without this term a slow kernel that was once improved upon is refined again and again, before the
        faster ones made from it, which nobody has tried yet.
        """
        fastest_first = sorted(state.starts, key=lambda attempt: attempt.outcome.latency_us or float("inf"))
        known = {attempt.trace: attempt for attempt in fastest_first}

        def worth(ids: Sequence[str]) -> Mapping[str, float]:
            return {id: q + self.handicap * behind(known[id], fastest_first[0]) for id, q in selector.worth(ids).items()}

        chosen = replace(selector, worth=worth).pick(memory.get(list(known)), 1)
        return known[chosen[0].id] if chosen else fastest_first[0]

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Eq. 4 for every valued item that was shown, and for the start point."""
        reward = attempt.reward
        if attempt.stage is Stage.REFINE:
            scale = Running(self.warmup, self.sigma_floor, self.clip)
            reward = self.running.setdefault(attempt.candidate.backend, scale).normalise(reward)
        rewards = {shown.id: reward for shown in attempt.shown if shown.role != "api"}
        if attempt.start:
            rewards[f"{attempt.run}:{attempt.start}"] = reward
        memory.update(attempt.id, attempt.stage, rewards, self.alpha)
        if self.by_family and state.task.family:
            memory.update(attempt.id, attempt.stage, rewards, self.alpha, scope=state.task.family)

    def worth(self, ids: Sequence[str], stage: Stage, family: str, memory: MemoryStore) -> Mapping[str, float]:
        """Q(s, m) for each item."""
        # Eq. 4 is linear, so values that began at 0 become those that began at q0 by adding what is left of q0.
        overall = {id: value.q + self.q0[stage] * (1 - self.alpha) ** value.visits for id, value in memory.values(ids, stage).items()}
        if not (self.by_family and family):
            return overall
        local = memory.values(ids, stage, scope=family)
        return {id: (v.visits * v.q + self.shrink * overall[id]) / (v.visits + self.shrink) for id, v in local.items()}

    def exploration(self, attempts: int) -> float:
        """Epsilon after so many attempts on the task."""
        done = min(1.0, attempts / max(1, self.budget - 1))
        return self.epsilon + (self.epsilon_end - self.epsilon) * done

    def widening(self, round: int) -> float:
        """Lambda in a round: the last step that has begun."""
        return next((value for begins, value in reversed(self.widen) if begins <= round), self.widen[0][1])


def behind(start: Attempt, best: Attempt) -> float:
    """Eq. 6 for a start point itself: 0 for the best, towards -1 for the hopelessly slow and the untimed."""
    slow, fast = start.outcome.latency_us, best.outcome.latency_us
    if not fast:
        return 0.0
    return tanh(log(fast) - log(slow)) if slow else -1.0


def check(message: str, holds: bool) -> None:
    """Refuses a setting."""
    if not holds:
        raise ValueError(message)


def steps(widen: Schedule) -> list[tuple[float, float]]:
    """A schedule in order of rounds; a single number holds from the first."""
    pairs = [[0, widen]] if isinstance(widen, int | float) else widen
    message = f"widen = {widen} must be a number of at least 1, or a schedule [[round, number], ...]"
    check(message, bool(pairs) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs))
    check(message, all(isinstance(number, int | float) for pair in pairs for number in pair) and all(pair[1] >= 1 for pair in pairs))
    return sorted((pair[0], pair[1]) for pair in pairs)


plugin = ValuePolicy
