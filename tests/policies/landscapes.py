"""Synthetic search landscapes: a kernel is the text of the moves that made it, and its latency follows from them exactly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from string import digits

from engine_parts import make_task

from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Reply, Stage
from evokernel.core.state import State

DRAFTS = "pqr"
VALLEY, BEYOND_VALLEY = 1.2, 0.25


def planted_latency(moves: str) -> float | None:
    """A landscape with a planted best path: two moves `b` make a kernel four times as fast, but the first of them makes it slower.

    Three moves `a` make it 10 % faster each, so the fastest kernel at hand is never one that is halfway along the planted path. `c` costs
    5 %, and a kernel that ends in `f` fails.
    """
    if moves.rstrip(digits).endswith("f"):
        return None
    valley = (1.0, VALLEY, BEYOND_VALLEY)[min(moves.count("b"), 2)]
    return 100.0 * 0.9 ** min(moves.count("a"), 3) * 1.05 ** moves.count("c") * valley * (1 + DRAFTS.index(moves[0]) / 50)


class Landscape:
    """Generator and executor of a landscape: a draft is one of three letters, a refinement appends a random move."""

    def __init__(self, latency: Callable[[str], float | None] = planted_latency, moves: str = "abcf", seed: int = 0) -> None:
        self.latency, self.moves, self.seed = latency, moves, seed

    def write(self, state, context):
        start = context.start_point
        return Reply(candidate=self.make_candidate(state, start.candidate.code if start else ""), prompt="p", text="t")

    def lesson(self, state, candidate, outcome):
        return None

    def submit(self, job):
        future: Future[Outcome] = Future()
        future.set_result(self.verify(job.candidate))
        return future

    def close(self):
        pass

    def make_candidate(self, state: State, start: str) -> Candidate:
        random = Random(f"{self.seed}/{state.next_id}/generator")
        return Candidate(backend="cpp", files={"kernel.cpp": start + random.choice(self.moves if start else DRAFTS)})

    def verify(self, candidate: Candidate) -> Outcome:
        latency = self.latency(candidate.code)
        if latency is None:
            return Outcome(gates=(GateResult(gate="build", passed=False, reason="compile_error", detail="no"),))
        return Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(latency,))

    def make_attempt(self, state: State, start: Attempt | None) -> Attempt:
        candidate = self.make_candidate(state, start.candidate.code if start else "")
        outcome = self.verify(candidate)
        return Attempt(
            id=state.next_id,
            run="r",
            task=state.task.id,
            round=state.round,
            stage=Stage.REFINE if start else Stage.DRAFT,
            start_point=start and start.id,
            candidate=candidate,
            outcome=outcome,
            reward=1.0 if outcome.feasible else -1.0,
        )


class UniqueKernels(Landscape):
    """A landscape where no kernel repeats: each ends in the number of its attempt."""

    def make_candidate(self, state, start):
        candidate = super().make_candidate(state, start)
        return candidate.model_copy(update={"files": {"kernel.cpp": f"{candidate.code}{len(state.attempts)}"}})


def search(strategy, landscape: Landscape, budget: int) -> State:
    """Let a strategy choose every start point, without memory and engine, and return the state after the last attempt."""
    task, attempts = make_task("relu"), ()
    while len(attempts) < budget:
        state = State(task=task, attempts=attempts, round=len(attempts))
        start = strategy.choose_start_point(state, Random(f"{strategy.seed}/{state.next_id}")) if state.start_points else None
        attempts += (landscape.make_attempt(state, start),)
    return State(task=task, attempts=attempts, round=budget)
