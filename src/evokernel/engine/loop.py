"""EvoKernel's algorithm: choose a context, generate a kernel, verify it, learn from the reward.

Choosing and learning happen on one thread, in task order. Only `execute_or_replay` runs in parallel, and it changes no shared state.
So memory and values need no lock, and runs with equal seeds and replies are equal for any number of workers.
A resumed run is the same loop: it replays the attempts of the journal instead of making them again. `streaming` is the loop without rounds.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

from evokernel.core.errors import InfraError, StopRun
from evokernel.core.protocols import Executor, Generator, MemoryStore, Policy
from evokernel.core.records import Attempt, Candidate, Context, ContextRef, GateResult, MemoryItem, Outcome, Reply, State, Task, Usage
from evokernel.core.run import Run
from evokernel.engine import context_store, novelty, streaming
from evokernel.engine.jobs import attempt_job
from evokernel.engine.reward import compute_reward


class AttemptCancelled(Exception):
    """The attempt did not start because the run is stopping."""


@dataclass
class Engine:
    """One run: its parts, and the attempts so far."""

    run: Run
    generator: Generator
    policy: Policy
    memory: MemoryStore
    executor: Executor
    distill: Callable[[Task, Attempt, Sequence[Attempt]], list[MemoryItem]]
    notify: Callable[[str, str], None] = lambda task, phase: None
    """Called from any thread when the attempt on a task enters a phase: `write`, `verify`, `lesson`, `reevaluate`, or "" when it waits."""
    clock: Callable[[], float] = time.time
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to finish the attempts in flight and then end the run."""
    stop_reason: str = ""
    history: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))

    def make_attempts(self) -> Iterator[Attempt]:
        """Give every task its attempts, one round at a time; yield each attempt after learning from it."""
        if self.run.config.schedule == "streaming":
            return (yield from streaming.make_attempts_streaming(self))
        journal = {attempt.id: attempt for attempt in self.run.attempts()}
        config, tasks = self.run.config, self.run.tasks
        with ThreadPoolExecutor(config.concurrency) as pool:
            for round in count():
                states = [self.make_state(task, round) for task in tasks if config.remaining_attempts(self.history[task.id])]
                if not states or self.stop.is_set():
                    return
                plans = [(s, journal.get(s.next_id) or context_store.choose_or_restore(self, s)) for s in states]  # mu(c | s, M)
                attempts_in_round = 0
                for state, attempt in zip(states, pool.map(self.execute_or_replay, plans), strict=True):  # G(y | s, c), then V(x, y)
                    if isinstance(attempt, AttemptCancelled):
                        return  # do not learn from later tasks of this round: their replies are stored, and a resume keeps the task order
                    if attempt is None:
                        continue
                    if attempt.id not in journal:
                        self.run.journal.append(attempt)
                    self.policy.learn(state, attempt, self.memory)  # Q <- Q + alpha (r - Q), Eq. 4
                    self.memory.add(self.distill(state.task, attempt, state.attempts))  # M <- M + (s, a, r), Eq. 1
                    self.history[state.task.id].append(attempt)
                    attempts_in_round += 1
                    yield attempt
                self.run.journal.sync()
                if not attempts_in_round and not any(attempt.round > round for attempt in journal.values()):
                    raise InfraError(f"round {round + 1} produced no attempt; {self.run.incidents} lists the reasons")

    def close(self) -> None:
        """Stop the workers, close the memory bank and release the run folder."""
        self.executor.close()
        self.memory.close()
        self.run.unlock()

    def make_state(self, task: Task, round: int) -> State:
        return State(task=task, attempts=tuple(self.history[task.id]), round=round)

    def execute_or_replay(self, plan: tuple[State, Context | Attempt]) -> Attempt | AttemptCancelled | None:
        """Return the attempt from the journal or make a new one; None if an infrastructure failure cost the task this round."""
        state, choice = plan
        if isinstance(choice, Attempt):
            return choice if choice.round <= state.round else None
        if self.stop.is_set():
            return AttemptCancelled()
        try:
            return self.make_attempt(state, choice)
        except StopRun as limit:
            self.stop_reason = self.stop_reason or str(limit)  # keep the first reason: later ones only follow from the stop
            self.stop.set()
            return AttemptCancelled()
        except InfraError as error:
            if self.stop.is_set():
                return AttemptCancelled()
            context_store.record_missed_round(self, state, choice, error)
            return None
        finally:
            self.notify(state.task.id, "")

    def make_attempt(self, state: State, context: Context) -> Attempt:
        """Generate a candidate, verify it, compute the reward and write a lesson."""
        reply = self.generate(state, context)  # G(y | s, c)
        outcome = self.verify(state, reply.candidate)  # V(x, y)
        lesson = self.write_lesson(state, reply.candidate, outcome)
        refs = [ContextRef(id=entry.item.id, role=entry.role, q=entry.q) for entry in context.items]
        return Attempt(
            id=state.next_id,
            run=self.run.config.id,
            task=state.task.id,
            round=state.round,
            stage=context.stage,
            start_point=context.start_point and context.start_point.id,
            shown_items=tuple(ref for ref in refs if ref.id not in reply.truncated_items),
            truncated_items=tuple(ref for ref in refs if ref.id in reply.truncated_items),
            candidate=reply.candidate,
            outcome=outcome,
            reward=compute_reward(context.stage, outcome, state.best),  # Eq. 5 and 6
            lesson=lesson.text if lesson else "",
            usage=reply.candidate.usage + outcome.usage + (lesson.candidate.usage if lesson else Usage()),
            finished_at=self.clock(),
        )

    def generate(self, state: State, context: Context) -> Reply:
        """Return the stored reply of an interrupted attempt, or a new reply, which is stored at once."""
        if stored_reply := self.run.load_reply(state.next_id, "reply"):
            return stored_reply
        self.notify(state.task.id, "write")
        reply = novelty.generate_novel(self.generator, state, context, self.run.config.min_novelty)
        self.run.store_reply(state.next_id, "reply", reply)
        return reply

    def verify(self, state: State, candidate: Candidate) -> Outcome:
        """Verify a candidate; one without code, or too similar to an earlier attempt, fails at the gate `write`."""
        if not candidate.files:
            return Outcome(gates=(GateResult(gate="write", passed=False, reason="no_code", detail=candidate.notes),))
        if duplicate := novelty.find_duplicate(candidate, state.attempts, self.run.config.min_novelty):
            return novelty.duplicate_outcome(duplicate)
        self.notify(state.task.id, "verify")
        return self.executor.submit(attempt_job(self.run.config, state, candidate)).result()

    def write_lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Let the generator write a lesson and store it like a reply; None if the generator writes no lessons."""
        if stored_lesson := self.run.load_reply(state.next_id, "lesson"):
            return stored_lesson
        self.notify(state.task.id, "lesson")
        lesson = self.generator.lesson(state, candidate, outcome)
        if lesson:
            self.run.store_reply(state.next_id, "lesson", lesson)
        return lesson
