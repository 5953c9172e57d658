"""What the runs of an experiment share in one process: worker processes, which start slowly, and a time limit."""

from __future__ import annotations

import json
import threading
import time
from types import TracebackType

from evokernel.app.factory import make_part
from evokernel.core.config import RunConfig
from evokernel.core.protocols import Executor
from evokernel.engine.final_eval import INTERRUPTED
from evokernel.engine.loop import Engine

SHARING_EXECUTORS = ("local",)
"""Executors whose workers serve one run after the other."""


class TimeLimitReached(Exception):
    """The time of this session is used up. All attempts so far are stored, and the same command continues."""


class RunSession:
    """Keeps executors for later runs, and stops the current run when the time limit is reached."""

    def __init__(self, time_limit_s: float | None = None) -> None:
        self.deadline_s = None if time_limit_s is None else time.monotonic() + time_limit_s
        self.executors: dict[str, Executor] = {}
        self.engine: Engine | None = None
        self.timer = None if time_limit_s is None else threading.Timer(time_limit_s, self.stop_engine)

    def __enter__(self) -> RunSession:
        if self.timer:
            self.timer.daemon = True
            self.timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.timer:
            self.timer.cancel()
        for executor in self.executors.values():
            executor.close()

    @property
    def is_over(self) -> bool:
        """Whether the time limit is reached."""
        return self.deadline_s is not None and time.monotonic() >= self.deadline_s

    def find_executor(self, config: RunConfig) -> Executor | None:
        """Return the executor for a run with these settings, which stays open for later runs; None if the run needs its own."""
        if config.plugin_name("executor") not in SHARING_EXECUTORS:
            return None
        key = json.dumps([config.executor, config.workers, config.plugin_name("backend")], sort_keys=True)
        if key not in self.executors:
            self.executors[key] = make_part(config, "executor")
        return self.executors[key]

    def watch(self, engine: Engine) -> None:
        """Stop this engine when the time limit is reached; the attempts in flight are finished."""
        self.engine = engine
        if self.is_over:
            self.stop_engine()

    def stop_engine(self) -> None:
        """Let the current run end as after an interrupt."""
        if self.engine:
            self.engine.stop_reason = INTERRUPTED
            self.engine.stop.set()

    def raise_if_stopped(self, engine: Engine) -> None:
        """Raise TimeLimitReached if the time limit ended this run."""
        if engine.stop_reason == INTERRUPTED:
            raise TimeLimitReached
