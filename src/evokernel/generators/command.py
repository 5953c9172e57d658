"""Generates candidates with a program that reads the prompt from standard input and prints the reply: an agent CLI or a script."""

from __future__ import annotations

import os
import time

from evokernel.core.commands import parse_command
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Usage
from evokernel.generators.programs import run_program
from evokernel.generators.prompted import PromptedGenerator
from evokernel.generators.prompting import PromptBuilder
from evokernel.llm.client import Completion

MISSING_COMMAND = "no command is set: set generator.command to a program that reads a prompt and prints a reply"


class Command(PromptedGenerator):
    """`command` is a list of words, or one line that is split as in a shell. It runs in `cwd` ("": the folder where the run was started),
    with the environment and EVOKERNEL_ATTEMPT (`task/n`; `task/n/plan` for a step), and is killed with all its children after `timeout_s`.
    `plan`, `critic`, `repair_attempts` and `prompt_variants` are those of `PromptedGenerator`.
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
        prompt_variants: bool = False,
    ) -> None:
        self.words = parse_command(command, "generator.command", MISSING_COMMAND)
        self.timeout_s, self.cwd = timeout_s, cwd or None
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, not {timeout_s}")
        if cwd and not os.path.isdir(cwd):
            raise UserError(f"generator 'command': folder {cwd} does not exist: set generator.cwd to an existing folder")
        prompts = PromptBuilder(backend, context_tokens, tunes=tuning_trials > 0)
        super().__init__(prompts, plan=plan, critic=critic, repair_attempts=repair_attempts, prompt_variants=prompt_variants)

    def complete(self, prompt: str, key: str) -> Completion:
        """The program's reply to one prompt; raises InfraError if the program fails or times out."""
        start_s = time.monotonic()
        text = self.run_program(prompt, key)
        return Completion(text, Usage(model=os.path.basename(self.words[0]), calls=1, seconds=time.monotonic() - start_s), "stop")

    def run_program(self, prompt: str, attempt: str) -> str:
        """The program's output."""
        environment = {**os.environ, "EVOKERNEL_ATTEMPT": attempt}
        result = run_program(self.words, stdin=prompt, cwd=self.cwd, env=environment, timeout_s=self.timeout_s)
        if result.code is None:
            raise InfraError(f"{self.words[0]} did not finish within {self.timeout_s:g} s{result.stderr}")
        if result.code:
            raise InfraError(f"{self.words[0]} failed with exit code {result.code}{result.stderr}")
        return result.stdout


plugin = Command
