"""Generates candidates with an agent: a program that may verify kernels, read profiles and search memory through MCP before it submits."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from evokernel.core.agent_socket import SessionServer
from evokernel.core.agent_tools import CallBudget, make_host_configuration
from evokernel.core.commands import parse_command
from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import AttemptTools
from evokernel.core.records import Candidate, Context, Outcome, Reply, Usage
from evokernel.core.state import State
from evokernel.generators.agent.attempt_session import AttemptSession
from evokernel.generators.programs import ProgramResult, run_program
from evokernel.generators.prompted import replace_surrogates
from evokernel.generators.prompting import PROMPTS_FOLDER, PromptBuilder
from evokernel.llm.render import render_prompt

MISSING_COMMAND = "no command is set: set generator.command to the command line of an agent, such as 'claude -p --mcp-config {config}'"
MAX_SOCKET_PATH = 100
"""Characters of a socket's path that every system accepts."""
CONFIG_FILE, PROMPT_FILE, CALLS_HEADING = ".mcp.json", "PROMPT.md", "Calls of tools"


class Agent:
    """`command` is a list of words, or one line that is split as in a shell. In it, `{config}` is the path of an MCP configuration, and
    `{session}` the folder for `evokernel mcp --connect`. The agent reads the prompt from standard input or from PROMPT.md in its working
    folder, which is `cwd` ("": a temporary folder with PROMPT.md and .mcp.json); words that name files of the folder where the run was
    started get their full path. It runs with the environment and EVOKERNEL_ATTEMPT.

    One attempt may take `calls` calls of tools, of which `verifications` verify a kernel, and `seconds`; then tools refuse, and `grace_s`
    seconds later the agent is killed with its process group. `memory` says whether it may search memory.
    """

    def __init__(
        self,
        backend: str,
        command: str | list[str] = "",
        calls: int = 40,
        verifications: int = 5,
        seconds: float = 900,
        grace_s: float = 30,
        memory: bool = True,
        context_tokens: int = 24000,
        cwd: str = "",
        tuning_trials: int = 0,
    ) -> None:
        self.words = [resolve_file(word) for word in parse_command(command, "generator.command", MISSING_COMMAND)]
        if min(calls, verifications) < 0 or seconds <= 0 or grace_s < 0:
            raise ValueError("calls, verifications and grace_s cannot be negative, and seconds must be above 0")
        if cwd and not os.path.isdir(cwd):
            raise UserError(f"generator 'agent': folder {cwd} does not exist: set generator.cwd to an existing folder")
        if find_spec("mcp") is None:
            raise UserError("generator 'agent' needs the package mcp. Install with: pip install 'evokernel[mcp]'")
        self.calls, self.verifications, self.seconds, self.grace_s = calls, verifications, seconds, grace_s
        self.memory, self.cwd = memory, cwd
        self.prompts = PromptBuilder(backend, context_tokens, tunes=tuning_trials > 0, asks_reply=False)
        self.tools: Callable[[State], AttemptTools] | None = None
        """The tools of an attempt; the run sets it."""

    def write(self, state: State, context: Context) -> Reply:
        """Run the agent once. The candidate is what it submitted, or else its fastest correct kernel, or else empty."""
        budget = CallBudget(self.calls, self.verifications, self.seconds)
        tools = self.tools(state) if self.tools else None
        session = AttemptSession(state, context, tools, self.prompts, budget, has_memory=self.memory)
        prompt = self.build_prompt(state, context)
        start_s = time.monotonic()
        with session_folder() as folder:
            server = SessionServer(folder / "session", session)
            try:
                result = self.run_agent(folder, prompt, state.next_id)
            finally:
                server.close()
        usage = Usage(model=os.path.basename(self.words[0]), calls=1, seconds=time.monotonic() - start_s)
        return self.make_reply(session, result, prompt, usage)

    def build_prompt(self, state: State, context: Context) -> str:
        """The task with start point and history; memory items are only named, since opening them is the agent's choice."""
        base = self.prompts.build_text(state, context.model_copy(update={"items": ()}))
        suggestions = [entry for entry in context.items if entry.role != "nothing"] if self.memory else []
        limits = {"calls": self.calls, "verifications": self.verifications, "seconds": self.seconds}
        tools = render_prompt(PROMPTS_FOLDER / "tools.md", file=self.prompts.file, suggestions=suggestions, memory=self.memory, **limits)
        return f"{base.rstrip()}\n\n{tools}"

    def run_agent(self, folder: Path, prompt: str, attempt: str) -> ProgramResult:
        """Start the agent with its configuration and wait until it ends or is killed."""
        session, workspace = folder / "session", folder / "workspace"
        config = workspace / CONFIG_FILE
        config.write_text(json.dumps(make_host_configuration(["--connect", str(session)]), indent=1) + "\n")
        (workspace / PROMPT_FILE).write_text(prompt, encoding="utf-8")
        words = [word.replace("{config}", str(config)).replace("{session}", str(session)) for word in self.words]
        environment = {**os.environ, "EVOKERNEL_ATTEMPT": attempt}
        limit_s = self.seconds + self.grace_s
        return run_program(words, stdin=prompt, cwd=self.cwd or str(workspace), env=environment, timeout_s=limit_s, ends_with_us=True)

    def make_reply(self, session: AttemptSession, result: ProgramResult, prompt: str, usage: Usage) -> Reply:
        """The reply with everything that the agent tried. Raises InfraError if the agent failed before it did anything."""
        ending = self.describe_ending(result)
        candidate = session.choose_candidate()
        if result.code and not session.trials and not candidate:
            raise InfraError(f"{self.words[0]} {ending}")
        empty = Candidate(backend=self.prompts.backend, files={}, notes=f"the agent {ending} without a correct kernel or a submission")
        calls = "\n".join(f"- {line}" for line in session.log) or "- none"
        return Reply(
            candidate=(candidate or empty).model_copy(update={"usage": usage}),
            prompt=prompt,
            text=replace_surrogates(f"# {CALLS_HEADING}\n\n{calls}\n\n# Output of the agent\n\n{result.stdout}"),
            opened_items=tuple(session.opened.values()),
            tool_use=session.make_record(ending),
        )

    def describe_ending(self, result: ProgramResult) -> str:
        """How the agent ended, in a few words."""
        if result.code is None:
            return f"was killed after {self.seconds + self.grace_s:g} s{result.stderr}"
        return f"failed with exit code {result.code}{result.stderr}" if result.code else "ended"

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """None: what the agent tried is in the record of the attempt."""
        return None


def resolve_file(word: str) -> str:
    """A word of a command; if it names a file of the folder where the run was started, with its full path."""
    return str(Path(word).absolute()) if Path(word).is_file() else word


@contextmanager
def session_folder() -> Iterator[Path]:
    """A temporary folder that only this user can read, with a short path, since it contains a socket."""
    is_short = len(tempfile.gettempdir()) < MAX_SOCKET_PATH - 40
    with tempfile.TemporaryDirectory(prefix="evokernel-", dir=None if is_short else "/tmp", ignore_cleanup_errors=True) as name:
        for part in ("session", "workspace"):
            (Path(name) / part).mkdir(mode=0o700)
        yield Path(name)


plugin = Agent
