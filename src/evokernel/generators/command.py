"""Generates candidates with a program that reads the prompt from standard input and prints the reply: an agent CLI or a script."""

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
from evokernel.core.records import Usage
from evokernel.generators.prompted import PromptedGenerator
from evokernel.generators.prompting import PromptBuilder
from evokernel.llm.client import Completion
from evokernel.llm.render import one_line

MAX_REPLY_BYTES = 4_000_000
MAX_STDERR_BYTES = 2000

MISSING_COMMAND = "no command is set: set generator.command to a program that reads a prompt and prints a reply"


class Command(PromptedGenerator):
    """`command` is a list of words, or one line that is split as in a shell. It runs in `cwd` ("": the folder where the run was started),
    with the environment and EVOKERNEL_ATTEMPT (`task/n`; `task/n/plan` for a step), and is killed with all its children after `timeout_s`.
    `plan`, `critic` and `repair_attempts` turn on the steps of `PromptedGenerator`.
    """

    def __init__(
        self,
        backend: str,
        command: str | list[str] = "",
        timeout_s: float = 600,
        context_tokens: int = 24000,
        cwd: str = "",
        tuning_trials: int = 0,
        plan: bool = False,
        critic: bool = False,
        repair_attempts: int = 0,
    ) -> None:
        self.words = parse_command(command, "generator.command", MISSING_COMMAND)
        self.timeout_s, self.cwd = timeout_s, cwd or None
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, not {timeout_s}")
        if cwd and not os.path.isdir(cwd):
            raise UserError(f"generator 'command': folder {cwd} does not exist: set generator.cwd to an existing folder")
        super().__init__(
            PromptBuilder(backend, context_tokens, tunes=tuning_trials > 0), plan=plan, critic=critic, repair_attempts=repair_attempts
        )

    def complete(self, prompt: str, key: str) -> Completion:
        """The program's reply to one prompt; raises InfraError if the program fails or times out."""
        start_s = time.monotonic()
        text = self.run_program(prompt, key)
        return Completion(text, Usage(model=os.path.basename(self.words[0]), calls=1, seconds=time.monotonic() - start_s), "stop")

    def run_program(self, prompt: str, attempt: str) -> str:
        """The program's output. It uses files instead of pipes: a grandchild that keeps a pipe open could block forever."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            stdin.write(prompt.encode())
            stdin.seek(0)
            environment = {**os.environ, "EVOKERNEL_ATTEMPT": attempt}
            try:
                process = subprocess.Popen(
                    self.words, stdin=stdin, stdout=stdout, stderr=stderr, cwd=self.cwd, env=environment, start_new_session=True
                )
            except OSError as error:
                raise InfraError(f"{self.words[0]} could not be started: {error.strerror or error}") from error
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise InfraError(f"{self.words[0]} did not finish within {self.timeout_s:g} s{stderr_tail(stderr)}") from error
            finally:
                kill_process_group(process)
            if code:
                raise InfraError(f"{self.words[0]} failed with exit code {code}{stderr_tail(stderr)}")
            stdout.seek(0)
            return stdout.read(MAX_REPLY_BYTES).decode("utf-8", "replace")


def kill_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and its children, if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stderr_tail(stderr: IO[bytes]) -> str:
    """The end of the program's standard error, to append to a message."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - MAX_STDERR_BYTES))
    text = one_line(stderr.read().decode("utf-8", "replace"), MAX_STDERR_BYTES)
    return f"; stderr: {text[-500:]}" if text else ""


plugin = Command
