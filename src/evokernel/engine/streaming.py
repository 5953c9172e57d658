"""The loop without rounds: the next attempt on a task starts as soon as its last one is learned, so that no device waits for slow tasks.

Choosing and learning still happen on one thread, but in the order in which attempts finish. So a choice depends on the speed of models
and machines, and runs with equal seeds may differ. Each choice is therefore stored until its attempt is in the journal: a resumed run
credits a stored reply to the memory items that its prompt showed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from evokernel.core.errors import InfraError
from evokernel.core.records import Attempt, Context, State, Task
from evokernel.engine import context_store

if TYPE_CHECKING:
    from evokernel.engine.loop import Engine


def make_attempts_streaming(engine: Engine) -> Iterator[Attempt]:
    """Replay the attempts of the journal in their order, then make new ones; yield each attempt after learning from it."""
    tasks = {task.id: task for task in engine.run.tasks}
    for attempt in engine.run.attempts():
        learn_attempt(engine, engine.make_state(tasks[attempt.task], attempt.round), attempt)
        yield attempt
    yield from AttemptStream(engine).make_attempts()


def learn_attempt(engine: Engine, state: State, attempt: Attempt) -> None:
    """Learn from an attempt as the loop with rounds does."""
    engine.policy.learn(state, attempt, engine.memory)  # Q <- Q + alpha (r - Q), Eq. 4
    engine.memory.add(engine.distill(state.task, attempt, state.attempts))  # M <- M + (s, a, r), Eq. 1
    engine.history[state.task.id].append(attempt)


class AttemptStream:
    """Schedules the tasks in turn: up to `concurrency` attempts in flight, never two on one task."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.config = engine, engine.run.config
        self.waiting_tasks = deque(task for task in engine.run.tasks if self.config.remaining_attempts(engine.history[task.id]))
        self.missed_rounds: Counter[str] = Counter()
        """Infrastructure failures per task since its last attempt."""
        self.in_flight: dict[Future[Any], State] = {}

    def make_attempts(self) -> Iterator[Attempt]:
        """Make attempts until no task gets any more; yield each attempt after learning from it."""
        engine, failures_in_a_row, attempt_count = self.engine, 0, 0
        with ThreadPoolExecutor(self.config.concurrency) as pool:
            while self.start_attempts(pool):
                for future in wait(self.in_flight, return_when=FIRST_COMPLETED).done:
                    state, attempt = self.in_flight.pop(future), future.result()
                    if isinstance(attempt, Attempt):
                        engine.run.journal.append(attempt)
                        context_store.delete_context(engine, attempt.id)
                        learn_attempt(engine, state, attempt)
                        failures_in_a_row, attempt_count, self.missed_rounds[attempt.task] = 0, attempt_count + 1, 0
                        yield attempt
                    elif attempt is None:
                        failures_in_a_row += 1
                        self.missed_rounds[state.task.id] += 1
                    if self.config.remaining_attempts(engine.history[state.task.id]):
                        self.waiting_tasks.append(state.task)
                    if failures_in_a_row and failures_in_a_row >= len(self.waiting_tasks) + len(self.in_flight):
                        raise InfraError(
                            f"infrastructure failures ended {failures_in_a_row} attempts in a row; {engine.run.incidents} lists the reasons"
                        )
                    if attempt_count % len(engine.run.tasks) == 0:
                        engine.run.journal.sync()
        engine.run.journal.sync()

    def start_attempts(self, pool: ThreadPoolExecutor) -> bool:
        """Start attempts up to the limit; return whether any attempt is in flight."""
        while self.waiting_tasks and len(self.in_flight) < self.config.concurrency and not self.engine.stop.is_set():
            state = self.next_state(self.waiting_tasks.popleft())
            self.in_flight[pool.submit(self.engine.execute_or_replay, (state, self.choose_and_store(state)))] = state
        return bool(self.in_flight)

    def next_state(self, task: Task) -> State:
        """Return the state for the next attempt on a task; its round also counts missed rounds."""
        before = self.engine.history[task.id]
        return self.engine.make_state(task, (before[-1].round + 1 if before else 0) + self.missed_rounds[task.id])

    def choose_and_store(self, state: State) -> Context:
        """Choose a context and store it at once, because a later choice would see a different memory."""
        context = context_store.choose_or_restore(self.engine, state)
        context_store.store_context(self.engine, state, context)
        return context
