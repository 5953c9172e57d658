"""A process that forks for every probe, puts the fork into a sandbox, runs the text there and reports the result."""

import json
import os
import sys

from evokernel.sandbox.apply import enter_sandbox, restrict_after_loading


def main():
    """Answer each line {plan, text, late, cwd} with a line [exit code, exception]."""
    for line in sys.stdin:
        request = json.loads(line)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            run_request(request, write_end)
        os.close(write_end)
        with os.fdopen(read_end, errors="replace") as stream:
            message = stream.read()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), message]) + "\n")
        sys.stdout.flush()


def run_request(request, reply_fd):
    os.setpgid(0, 0)
    os.chdir(request["cwd"])
    message = ""
    try:
        enter_sandbox(request["plan"], {reply_fd})
        if request["late"]:
            restrict_after_loading(request["plan"])
        exec(request["text"], {"os": os, "where": request["where"]})
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
    os.write(reply_fd, message.encode())
    os._exit(0)
