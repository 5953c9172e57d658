"""The loop without rounds: the next attempt on a task starts as soon as its last one is learned, so that no device waits for slow tasks.

Choosing and learning still happen on one thread, but in the order in which attempts finish. So a choice depends on the speed of models
and machines, and runs with equal seeds may differ. Each choice is therefore stored until its attempt is in the journal: a resumed run
credits a stored reply to the memory items that its prompt showed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from evokernel.core.errors import InfraError
from evokernel.core.records import Attempt, Context, Task
from evokernel.core.state import State
from evokernel.engine import context_store
from evokernel.engine.attempt_maker import AttemptMaker


def make_attempts_streaming(maker: AttemptMaker) -> Iterator[Attempt]:
    """Replay the attempts of the journal in their order, then make new ones; yield each attempt after learning from it."""
    tasks = {task.id: task for task in maker.run.tasks}
    for attempt in maker.run.attempts():
        learn_attempt(maker, maker.make_state(tasks[attempt.task], attempt.round), attempt)
        yield attempt
    yield from AttemptStream(maker).make_attempts()


def learn_attempt(maker: AttemptMaker, state: State, attempt: Attempt) -> None:
    """Learn from an attempt as the loop with rounds does."""
    maker.policy.learn(state, attempt, maker.memory)  # Q <- Q + alpha (r - Q), Eq. 4
    maker.memory.add(maker.distill(state.task, attempt, state.attempts))  # M <- M + (s, a, r), Eq. 1
    maker.learn_own_choices(state, attempt)
    maker.history[state.task.id].append(attempt)


class AttemptStream:
    """Schedules the tasks in turn: up to `concurrency` attempts in flight, never two on one task."""

    def __init__(self, maker: AttemptMaker) -> None:
        self.maker, self.config = maker, maker.run.config
        self.waiting_tasks = deque(task for task in maker.run.tasks if maker.remaining_attempts(task))
        self.missed_rounds: Counter[str] = Counter()
        """Infrastructure failures per task since its last attempt."""
        self.in_flight: dict[Future[Any], State] = {}

    def make_attempts(self) -> Iterator[Attempt]:
        """Make attempts until no task gets any more; yield each attempt after learning from it."""
        maker, failures_in_a_row, attempt_count = self.maker, 0, 0
        with ThreadPoolExecutor(self.config.concurrency) as pool:
            while self.start_attempts(pool):
                for future in wait(self.in_flight, return_when=FIRST_COMPLETED).done:
                    state, attempt = self.in_flight.pop(future), future.result()
                    if isinstance(attempt, Attempt):
                        maker.run.journal.append(attempt)
                        context_store.delete_context(maker.run, attempt.id)
                        learn_attempt(maker, state, attempt)
                        failures_in_a_row, attempt_count, self.missed_rounds[attempt.task] = 0, attempt_count + 1, 0
                        yield attempt
                    elif attempt is None:
                        failures_in_a_row += 1
                        self.missed_rounds[state.task.id] += 1
                    if maker.remaining_attempts(state.task):
                        self.waiting_tasks.append(state.task)
                    if failures_in_a_row and failures_in_a_row >= len(self.waiting_tasks) + len(self.in_flight):
                        raise InfraError(
                            f"infrastructure failures ended {failures_in_a_row} attempts in a row ({maker.last_failure}); "
                            f"{maker.run.incidents} lists the reasons"
                        )
                    if attempt_count % len(maker.run.tasks) == 0:
                        maker.run.journal.sync()
        maker.run.journal.sync()

    def start_attempts(self, pool: ThreadPoolExecutor) -> bool:
        """Start attempts up to the limit; return whether any attempt is in flight."""
        while self.waiting_tasks and len(self.in_flight) < self.config.concurrency and not self.maker.stop.is_set():
            state = self.next_state(self.waiting_tasks.popleft())
            self.in_flight[pool.submit(self.maker.execute_or_replay, (state, self.choose_and_store(state)))] = state
        return bool(self.in_flight)

    def next_state(self, task: Task) -> State:
        """Return the state for the next attempt on a task; its round also counts missed rounds."""
        before = self.maker.history[task.id]
        return self.maker.make_state(task, (before[-1].round + 1 if before else 0) + self.missed_rounds[task.id])

    def choose_and_store(self, state: State) -> Context:
        """Choose a context and store it at once, because a later choice would see a different memory."""
        context = self.maker.choose_context(state)
        context_store.store_context(self.maker.run, state, context)
        return context
