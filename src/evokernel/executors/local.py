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


class Broken(InfraError):
    """A bug of ours in the judge: asking again would give the same."""


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
        except TimeoutError as error:
            self.close()
            raise InfraError(f"the verification worker {error}") from error
        except (BrokenPipeError, EOFError) as error:
            code = ended(process)
            self.close()
            if code == 1:
                raise Broken("the judge itself failed: please report the traceback above") from error
            raise InfraError(f"the verification worker died (exit code {code})") from error

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "evokernel.executors.worker"]  # -P: a file in the working folder hides no library
        quiet = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        # A group of its own: Ctrl-C in the terminal is for the run, which lets its judges finish.
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=quiet, process_group=0)

    def line(self, process: subprocess.Popen[bytes], timeout_s: float) -> str:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise TimeoutError(f"gave no answer for {timeout_s:.0f} s")
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
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
        self.judges: queue.LifoQueue[Judge] = queue.LifoQueue()  # the last that was busy: it is warm, and no other need be started
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
                    if not left or isinstance(error, Broken):
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


def ended(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process whose pipe is closed; None when it lives on."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(10)
    return None


plugin = Local
