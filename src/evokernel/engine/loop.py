"""EvoKernel's algorithm: choose a context, generate a kernel, verify it, learn from the reward.

Choosing and learning happen on one thread, in task order. Only `execute_or_replay` runs in parallel, and it changes no shared state.
So memory and values need no lock, and runs with equal seeds and replies are equal for any number of workers.
A resumed run is the same loop: it replays the attempts of the journal instead of making them again. `streaming` is the loop without rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from evokernel.core.errors import InfraError
from evokernel.core.records import Attempt
from evokernel.engine import streaming
from evokernel.engine.attempt_maker import AttemptCancelled, AttemptMaker


class Engine(AttemptMaker):
    """One run with its loop."""

    def make_attempts(self) -> Iterator[Attempt]:
        """Give every task its attempts, one round at a time; yield each attempt after learning from it."""
        if self.run.config.schedule == "streaming":
            return (yield from streaming.make_attempts_streaming(self))
        journal = {attempt.id: attempt for attempt in self.run.attempts()}
        config, tasks = self.run.config, self.run.tasks
        with ThreadPoolExecutor(config.concurrency) as pool:
            for round in count():
                states = [self.make_state(task, round) for task in tasks if self.remaining_attempts(task)]
                if not states or self.stop.is_set():
                    return
                plans = [(s, journal.get(s.next_id) or self.choose_context(s)) for s in states]  # mu(c | s, M)
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
                    self.learn_own_choices(state, attempt)
                    self.history[state.task.id].append(attempt)
                    attempts_in_round += 1
                    yield attempt
                self.run.journal.sync()
                if not attempts_in_round and not any(attempt.round > round for attempt in journal.values()):
                    raise InfraError(f"round {round + 1} produced no attempt ({self.last_failure}); {self.run.incidents} lists the reasons")

    def close(self, stop_workers: bool = True) -> None:
        """Stop the workers, unless another run uses them; close the memory bank and release the run folder."""
        if stop_workers:
            self.executor.close()
        self.memory.close()
        self.run.unlock()
