"""Describes one task file in a process of its own: prints the task, or why it is none, as one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.suites.loader import describe_task, read_task_file


def main(path: str, id: str) -> None:
    """Write the reply to the original stdout; what the reference prints goes to stderr."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        task = describe_task(read_task_file(Path(path))._replace(id=id))
        reply: dict[str, object] = {"task": task.model_dump(mode="json")}
    except UserError as error:
        reply = {"user_error": str(error)}
    replies.write("\n" + json.dumps(reply) + "\n")
    replies.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
