"""Verifies on this machine: a few warm judges, each a process of its own that can die without taking the run along."""

from __future__ import annotations

import json
import logging
import os
import queue
import selectors
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from evokernel.core.config import usable_cores
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Job, Outcome

log = logging.getLogger(__name__)
GRACE_S = 120  # a judge bounds every step by the job's time-out; one silent for this much longer is stuck itself


class Judge:
    """One worker process, started when first needed and again after it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, job: Job) -> str:
        """The worker's line of answer; InfraError when it died or hangs."""
        process = self.process = self.process if self.process and self.process.poll() is None else self.start()
        assert process.stdin is not None
        try:
            process.stdin.write(job.model_dump_json().encode() + b"\n")
            process.stdin.flush()
            return self.line(process, 4 * job.timeout_s + GRACE_S)
        except (BrokenPipeError, EOFError, TimeoutError) as error:
            self.close()
            raise InfraError(f"the verification worker {error if str(error) else 'ended'} (exit code {process.poll()})") from error

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "evokernel.executors.worker"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OMP_WAIT_POLICY": "passive"})

    def line(self, process: subprocess.Popen[bytes], timeout_s: float) -> str:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise TimeoutError(f"gave no answer for {timeout_s:.0f} s")
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError("died")
        return line.decode()

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(OSError):  # what was still buffered has nobody to go to
                    assert pipe is not None
                    pipe.close()
            self.process = None


class Local:
    """`workers` judges at a time (0: one per core); a job whose judge died is given to a fresh one, `tries` times in all."""

    def __init__(self, workers: int = 0, tries: int = 3) -> None:
        count = workers or usable_cores()
        self.tries = tries
        self.judges: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        self.all = [Judge() for _ in range(count)]
        for judge in self.all:
            self.judges.put(judge)
        self.pool = ThreadPoolExecutor(count)

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job: Job) -> Outcome:
        judge = self.judges.get()
        try:
            for left in reversed(range(self.tries)):
                try:
                    return outcome(judge.ask(job))
                except InfraError as error:
                    if not left:
                        raise
                    log.warning("%s: %s; trying again", job.task.id, error)
            raise InfraError("no tries left")
        finally:
            self.judges.put(judge)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for judge in self.all:
            judge.close()


def outcome(line: str) -> Outcome:
    """What a worker's answer says."""
    found = json.loads(line)
    if "outcome" in found:
        return Outcome.model_validate(found["outcome"])
    if "user" in found:
        raise UserError(found["user"])
    raise InfraError(found["infra"])


plugin = Local
