"""Asks a program: the prompt goes to its standard input, the reply is what it prints. For agent command lines and own scripts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from typing import IO

from evokernel.core.commands import parse_command
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, State, Usage
from evokernel.generators.prompting import Prompts
from evokernel.llm.render import one_line

REPLY_BYTES = 4_000_000
STDERR_BYTES = 2000

NEEDS = "no command chosen: set generator.command to a program that reads a prompt and prints a reply"


class Command:
    """`command` is a list of words, or a line that is split like a shell would. It runs in `cwd` ("": where the run was started), sees the
    environment and EVOKERNEL_ATTEMPT, and is killed with all its children after `timeout_s`.
    """

    def __init__(
        self, backend: str, command: str | list[str] = "", timeout_s: float = 600, context_tokens: int = 24000, cwd: str = ""
    ) -> None:
        self.words = parse_command(command, "generator.command", NEEDS)
        self.timeout_s, self.cwd = timeout_s, cwd or None
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, not {timeout_s}")
        if cwd and not os.path.isdir(cwd):
            raise UserError(f"generator 'command': there is no folder {cwd}: set generator.cwd to one that exists")
        self.prompts = Prompts(backend, context_tokens)

    def write(self, state: State, context: Context) -> Reply:
        """A candidate from what the program prints; InfraError when it fails or does not end."""
        prompt = self.prompts.fitted(state, context)
        started = time.monotonic()
        text = self.run(prompt.text, state.next_id)
        usage = Usage(model=os.path.basename(self.words[0]), calls=1, seconds=time.monotonic() - started)
        return Reply(
            candidate=self.prompts.candidate(text, state.task, usage), prompt=prompt.text, text=text, truncated_items=prompt.left_out
        )

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Programs are asked for kernels only."""
        return None

    def run(self, prompt: str, attempt: str) -> str:
        """What the program prints. Files instead of pipes: a grandchild that holds a pipe open could block us for ever."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
            given.write(prompt.encode())
            given.seek(0)
            environment = {**os.environ, "EVOKERNEL_ATTEMPT": attempt}
            try:
                process = subprocess.Popen(
                    self.words, stdin=given, stdout=printed, stderr=complaints, cwd=self.cwd, env=environment, start_new_session=True
                )
            except OSError as error:
                raise InfraError(f"{self.words[0]} could not be started: {error.strerror or error}") from error
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise InfraError(f"{self.words[0]} did not end within {self.timeout_s:g} s{said(complaints)}") from error
            finally:
                kill(process)
            if code:
                raise InfraError(f"{self.words[0]} ended with exit code {code}{said(complaints)}")
            printed.seek(0)
            return printed.read(REPLY_BYTES).decode("utf-8", "replace")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends whatever is left of the program and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def said(complaints: IO[bytes]) -> str:
    """The end of what the program wrote to standard error."""
    size = complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, size - STDERR_BYTES))
    text = one_line(complaints.read().decode("utf-8", "replace"), STDERR_BYTES)
    return f"; it said: {text[-500:]}" if text else ""


plugin = Command
