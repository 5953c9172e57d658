"""EvoKernel's algorithm: choose a context, write a kernel, verify it, learn.

Choosing and learning happen on one thread, in task order; only `attempt` runs in parallel, and it touches nothing shared. So memory
and values need no lock, and a run with the same seed and replies is the same run whatever the number of workers.
A resumed run is the same loop: an attempt the journal already holds is learned again instead of made again. (`streaming`: no rounds.)
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

from evokernel.core.errors import InfraError, StopRun
from evokernel.core.protocols import Executor, Generator, MemoryStore, Policy
from evokernel.core.records import Attempt, Candidate, Context, ContextRef, GateResult, Job, MemoryItem, Outcome, Reply, State, Task, Usage
from evokernel.core.run import Run
from evokernel.engine import context_store, novelty, streaming
from evokernel.engine.reward import reward


class AttemptCancelled(Exception):
    """The attempt was not begun, because the run is stopping."""


@dataclass
class Engine:
    """One run: its parts, and what has been tried so far."""

    run: Run
    generator: Generator
    policy: Policy
    memory: MemoryStore
    executor: Executor
    distill: Callable[[Task, Attempt, Sequence[Attempt]], list[MemoryItem]]
    notify: Callable[[str, str], None] = lambda task, phase: None
    """Told, from any thread, that a task's attempt entered a phase: `write`, `verify`, `lesson`, or "" when it waits."""
    clock: Callable[[], float] = time.time
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to finish the attempts in flight and end the run."""
    stop_reason: str = ""
    history: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))

    def attempts(self) -> Iterator[Attempt]:
        """Gives every task its attempts, a round at a time, and yields each as it is learned from."""
        if self.run.config.schedule == "streaming":
            return (yield from streaming.attempts(self))
        recorded = {attempt.id: attempt for attempt in self.run.attempts()}
        config, tasks = self.run.config, self.run.tasks
        with ThreadPoolExecutor(config.concurrency) as pool:
            for round in count():
                states = [self.state(task, round) for task in tasks if config.remaining_attempts(self.history[task.id])]
                if not states or self.stop.is_set():
                    return
                plans = [(state, recorded.get(state.next_id) or context_store.choose(self, state)) for state in states]  # mu(c | s, M)
                made = 0
                for state, attempt in zip(states, pool.map(self.execute_or_replay, plans), strict=True):
                    if isinstance(attempt, AttemptCancelled):
                        return  # what comes after the gap stays unlearned: its reply is kept, and task order holds on resume
                    if attempt is None:
                        continue
                    if attempt.id not in recorded:
                        self.run.journal.append(attempt)
                    self.policy.learn(state, attempt, self.memory)  # Q <- Q + alpha (r - Q), Eq. 4
                    self.memory.add(self.distill(state.task, attempt, state.attempts))  # M <- M + (s, a, r), Eq. 1
                    self.history[state.task.id].append(attempt)
                    made += 1
                    yield attempt
                self.run.journal.sync()
                if not made and not any(attempt.round > round for attempt in recorded.values()):
                    raise InfraError(f"a whole round gave no attempt; the reasons are in {self.run.incidents}")

    def close(self) -> None:
        """Ends the workers and lets go of bank and folder; call when no more attempts are wanted."""
        self.executor.close()
        self.memory.close()
        self.run.unlock()

    def state(self, task: Task, round: int) -> State:
        return State(task=task, attempts=tuple(self.history[task.id]), round=round)

    def execute_or_replay(self, plan: tuple[State, Context | Attempt]) -> Attempt | AttemptCancelled | None:
        """The recorded attempt, a new one, or None when infrastructure trouble (then or now) took this round from the task."""
        state, chosen = plan
        if isinstance(chosen, Attempt):
            return chosen if chosen.round <= state.round else None
        if self.stop.is_set():
            return AttemptCancelled()
        try:
            return self.make_attempt(state, chosen)
        except StopRun as reached:
            self.stop_reason = self.stop_reason or str(reached)  # the first reason: others only notice that the run is stopping
            self.stop.set()
            return AttemptCancelled()
        except InfraError as error:
            if self.stop.is_set():
                return AttemptCancelled()
            context_store.missed(self, state, chosen, error)
            return None
        finally:
            self.notify(state.task.id, "")

    def make_attempt(self, state: State, context: Context) -> Attempt:
        reply = self.write(state, context)  # G(y | s, c)
        outcome = self.verify(state, reply.candidate)  # V(x, y)
        lesson = self.write_lesson(state, reply.candidate, outcome)
        refs = [ContextRef(id=shown.item.id, role=shown.role, q=shown.q) for shown in context.items]
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
            reward=reward(context.stage, outcome, state.best),
            lesson=lesson.text if lesson else "",
            usage=reply.candidate.usage + outcome.usage + (lesson.candidate.usage if lesson else Usage()),
            finished_at=self.clock(),
        )

    def write(self, state: State, context: Context) -> Reply:
        """The kept reply of an attempt that was cut short, or a new one, kept before anything else happens."""
        if kept := self.run.load_reply(state.next_id, "reply"):
            return kept
        self.notify(state.task.id, "write")
        reply = novelty.generate_novel(self.generator, state, context, self.run.config.min_novelty)
        self.run.store_reply(state.next_id, "reply", reply)
        return reply

    def verify(self, state: State, candidate: Candidate) -> Outcome:
        if not candidate.files:
            return Outcome(gates=(GateResult(gate="write", passed=False, reason="no_code", detail=candidate.notes),))
        if twin := novelty.find_duplicate(candidate, state.attempts, self.run.config.min_novelty):
            return novelty.refusal(twin)
        self.notify(state.task.id, "verify")
        return self.executor.submit(self.job(state, candidate)).result()

    def write_lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """A lesson in words, where the generator writes them; kept like a reply."""
        if kept := self.run.load_reply(state.next_id, "lesson"):
            return kept
        self.notify(state.task.id, "lesson")
        lesson = self.generator.lesson(state, candidate, outcome)
        if lesson:
            self.run.store_reply(state.next_id, "lesson", lesson)
        return lesson

    def job(self, state: State, candidate: Candidate) -> Job:
        config = self.run.config
        return Job(
            backend=config.plugin_name("backend"),
            settings=config.plugin_settings("backend"),
            task=state.task,
            candidate=candidate,
            seed=seed_from_text(f"{config.seed}/{state.next_id}"),
            timeout_s=config.timeout_s,
            timing_s=config.timing_s,
            clock=config.clock,
            baselines=config.baselines,
            protocol=config.protocol,
            incumbent=state.best.candidate if state.best else None,
            require_sandbox=config.require_sandbox,
            llm_review=config.llm_review,
        )


def seed_from_text(text: str) -> int:
    """A seed that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
