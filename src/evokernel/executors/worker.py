"""Reads Jobs on stdin, one JSON line each, and writes what `verify` found on stdout, one line each.

The same program serves a local pipe, ssh, a container or a queue. It ends when its stdin does, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from queue import SimpleQueue
from typing import TextIO

from pydantic import ValidationError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Job
from evokernel.verify import verify
from evokernel.verify.verifier import remove_own


def answer(line: str) -> str:
    """One job to one line: an Outcome, or whose fault it is that there is none."""
    try:
        return json.dumps({"outcome": verify(Job.model_validate_json(line)).model_dump(mode="json")})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return json.dumps({"user": f"this is no job: {where or 'it'}: {first['msg'].lower()}; is evokernel of the same version there?"})
    except InfraError as error:
        return json.dumps({"infra": str(error)})
    except UserError as error:
        return json.dumps({"user": str(error)})


def feed(jobs: SimpleQueue[str], source: TextIO) -> None:
    """Hands jobs on; the end of the source means that whoever asked is gone."""
    for line in source:
        jobs.put(line)
    try:
        remove_own()
    finally:
        os._exit(0)


def main(once: bool = False) -> None:
    """Serves until stdin ends; with `once`, answers the one job there is on it, ended or not."""
    sys.path.append(os.getcwd())  # for plug-ins given as module:Class; last, so that a file there hides no library
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    if once:
        answers.write(answer(sys.stdin.read()) + "\n")
        return answers.close()
    jobs: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=feed, args=(jobs, sys.stdin), daemon=True).start()
    while True:
        answers.write(answer(jobs.get()) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
