"""The loop without rounds: a task's next attempt begins as soon as its last is learned from, so that no device waits for the slowest task.

Choosing and learning still happen on one thread, but in the order in which attempts end: what a choice finds in memory depends on the
speed of models and machines, and equal runs are no longer equal. So a choice is kept until its attempt is in the journal: a resumed run
does not credit other memories than those the kept reply was written with.
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


def attempts(engine: Engine) -> Iterator[Attempt]:
    """What the journal holds, learned again in its order; then every task's attempts as they come."""
    tasks = {task.id: task for task in engine.run.tasks}
    for attempt in engine.run.attempts():
        learn(engine, engine.state(tasks[attempt.task], attempt.round), attempt)
        yield attempt
    yield from Stream(engine).attempts()


def learn(engine: Engine, state: State, attempt: Attempt) -> None:
    """As in rounds, but in the order in which attempts end."""
    engine.policy.learn(state, attempt, engine.memory)
    engine.memory.add(engine.distill(state.task, attempt, state.attempts))
    engine.history[state.task.id].append(attempt)


class Stream:
    """Tasks in turn, as many in flight as `concurrency` allows, never two attempts of one."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.config = engine, engine.run.config
        self.turn = deque(task for task in engine.run.tasks if self.config.remaining_attempts(engine.history[task.id]))
        self.missed: Counter[str] = Counter()
        """Infrastructure trouble of a task since its last attempt."""
        self.in_flight: dict[Future[Any], State] = {}

    def attempts(self) -> Iterator[Attempt]:
        engine, in_a_row, made = self.engine, 0, 0
        with ThreadPoolExecutor(self.config.concurrency) as pool:
            while self.begin(pool):
                for future in wait(self.in_flight, return_when=FIRST_COMPLETED).done:
                    state, attempt = self.in_flight.pop(future), future.result()
                    if isinstance(attempt, Attempt):
                        engine.run.journal.append(attempt)
                        context_store.forget(engine, attempt.id)
                        learn(engine, state, attempt)
                        in_a_row, made, self.missed[attempt.task] = 0, made + 1, 0
                        yield attempt
                    elif attempt is None:
                        in_a_row, self.missed[state.task.id] = in_a_row + 1, self.missed[state.task.id] + 1
                    if self.config.remaining_attempts(engine.history[state.task.id]):
                        self.turn.append(state.task)
                    if in_a_row and in_a_row >= len(self.turn) + len(self.in_flight):
                        raise InfraError(f"{in_a_row} attempts in a row came to nothing; the reasons are in {engine.run.incidents}")
                    if made % len(engine.run.tasks) == 0:
                        engine.run.journal.sync()
        engine.run.journal.sync()

    def begin(self, pool: ThreadPoolExecutor) -> bool:
        """Begins what may begin; whether anything is in flight."""
        while self.turn and len(self.in_flight) < self.config.concurrency and not self.engine.stop.is_set():
            state = self.state(self.turn.popleft())
            self.in_flight[pool.submit(self.engine.execute_or_replay, (state, self.choose(state)))] = state
        return bool(self.in_flight)

    def state(self, task: Task) -> State:
        before = self.engine.history[task.id]
        return self.engine.state(task, (before[-1].round + 1 if before else 0) + self.missed[task.id])

    def choose(self, state: State) -> Context:
        """Kept before anything else happens: what this choice found in memory, it would not find again."""
        context = context_store.choose(self.engine, state)
        context_store.keep(self.engine, state, context)
        return context
