"""The verification worker: reads jobs from stdin, one JSON line each, and writes one line with the outcome of each to stdout.

The same program serves a local pipe, ssh, a container or a queue. It ends when its stdin ends, even in the middle of a job.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

from pydantic import ValidationError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import GateResult, Job
from evokernel.executors.worker_pool import GATE_KEY
from evokernel.verifier.verifier import remove_own_folders, verify


def answer_job(line: str, send: Callable[[str], None]) -> str:
    """Return the reply to one job: an outcome, or an error with the side to blame. `send` takes messages about gates if the job asks."""

    def send_gate(job: Job, gate: str, result: GateResult | None) -> None:
        if job.reports_gates:
            send(json.dumps({GATE_KEY: gate, "result": result.model_dump(mode="json") if result else None}))

    try:
        return json.dumps({"outcome": verify(Job.model_validate_json(line), send_gate).model_dump(mode="json")})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        problem = f"{where or 'the line'}: {first['msg'].lower()}"
        return json.dumps({"user_error": f"invalid job: {problem}. Check that both machines run the same evokernel version"})
    except InfraError as error:
        return json.dumps({"infra_error": str(error)})
    except UserError as error:
        return json.dumps({"user_error": str(error)})


def enqueue_jobs(jobs: SimpleQueue[str], source: TextIO) -> None:
    """Queue the jobs from stdin; at its end the submitter is gone, so clean up and exit."""
    for line in source:
        jobs.put(line)
    try:
        remove_own_folders()
    finally:
        os._exit(0)


def main(once: bool = False) -> None:
    """Serve jobs until stdin ends; with `once`, answer the single job on stdin and exit."""
    sys.path.append(os.getcwd())  # for plug-ins named as module:Class; last, so that a file there hides no library
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a library must not be mistaken for a reply
    if once:
        replies.write(answer_job(sys.stdin.read(), send=lambda text: None) + "\n")
        return replies.close()
    jobs: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=enqueue_jobs, args=(jobs, sys.stdin), daemon=True).start()

    def send(text: str) -> None:
        replies.write(text + "\n")
        replies.flush()

    while True:
        send(answer_job(jobs.get(), send))


if __name__ == "__main__":
    main()
