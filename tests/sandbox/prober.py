"""A process that copies itself for every probe, puts the copy into a jail, runs the text there and says what became of it."""

import json
import os
import sys

from evokernel.sandbox.apply import enter, enter_after_loading


def main():
    """One line in, one line out: {plan, text, late, cwd} -> [exit code, what was raised]."""
    for line in sys.stdin:
        order = json.loads(line)
        ours, theirs = os.pipe()
        pid = os.fork()
        if not pid:
            attempt(order, theirs)
        os.close(theirs)
        with os.fdopen(ours, errors="replace") as said:
            words = said.read()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), words]) + "\n")
        sys.stdout.flush()


def attempt(order, answers):
    os.setpgid(0, 0)
    os.chdir(order["cwd"])
    words = ""
    try:
        enter(order["plan"], {answers})
        if order["late"]:
            enter_after_loading(order["plan"])
        exec(order["text"], {"os": os, "where": order["where"]})
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
    os.write(answers, words.encode())
    os._exit(0)
