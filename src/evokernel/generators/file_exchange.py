"""Exchanges files with a person or another program: prompts are written to a folder, and replies are read from it. It may take days."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from evokernel.core import paths
from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Usage
from evokernel.generators.prompted import PromptedGenerator
from evokernel.generators.prompting import PromptBuilder
from evokernel.llm.client import Completion

log = logging.getLogger(__name__)


class FileExchange(PromptedGenerator):
    """Writes `<attempt>.prompt.md` to `folder` (with `--` for each `/` of the attempt's id) and waits for `<attempt>.reply.md`.

    A reply is complete when it is not empty and has not changed in two checks, `poll_s` apart. `timeout_s` 0 waits without limit. An
    existing reply to the same prompt is used again, so a resumed run does not repeat a question; a reply to another prompt is renamed.
    `plan`, `critic` and `repair_attempts` turn on the steps of `PromptedGenerator`, whose files are `<attempt>--plan.prompt.md` and so on.
    """

    def __init__(
        self,
        backend: str,
        folder: str = "file-exchange",
        poll_s: float = 1,
        timeout_s: float = 0,
        context_tokens: int = 24000,
        tuning_trials: int = 0,
        plan: bool = False,
        critic: bool = False,
        repair_attempts: int = 0,
        prompt_variants: bool = False,
    ) -> None:
        if poll_s <= 0:
            raise ValueError(f"poll_s must be above 0, not {poll_s}")
        if timeout_s < 0:
            raise ValueError(f"timeout_s must be 0 (no limit) or more, not {timeout_s}")
        self.folder, self.poll_s, self.timeout_s = Path(folder), poll_s, timeout_s
        prompts = PromptBuilder(backend, context_tokens, tunes=tuning_trials > 0)
        super().__init__(prompts, plan=plan, critic=critic, repair_attempts=repair_attempts, prompt_variants=prompt_variants)
        self.stop = threading.Event()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"generator 'file_exchange' cannot use {folder}: {error.strerror or error}; set generator.folder to another folder"
            ) from error

    def complete(self, prompt: str, key: str) -> Completion:
        """The reply to one prompt, from the reply file."""
        start_s = time.monotonic()
        text = self.exchange(prompt, key.replace("/", "--"))
        return Completion(text, Usage(model="file_exchange", calls=1, seconds=time.monotonic() - start_s), "stop")

    def exchange(self, prompt: str, name: str) -> str:
        """Writes the prompt file, unless it exists already, and waits for the reply file."""
        prompt_file, reply_file = self.folder / f"{name}.prompt.md", self.folder / f"{name}.reply.md"
        if not prompt_file.exists() or prompt_file.read_bytes() != prompt.encode():
            rename_old_reply(reply_file)
            paths.write_text(prompt_file, prompt)
            log.info("waiting for %s", reply_file)
        elapsed_s, previous, unchanged_checks = 0.0, (-1, -1), 0
        while True:
            current = file_signature(reply_file)
            unchanged_checks = unchanged_checks + 1 if current == previous else 0
            previous = current
            if current[0] > 0 and unchanged_checks >= 2:
                return reply_file.read_text(encoding="utf-8", errors="replace")
            if self.timeout_s and elapsed_s >= self.timeout_s:
                raise InfraError(f"no reply in {reply_file} within {self.timeout_s:g} s")
            if self.stop.wait(self.poll_s):
                raise StopRun(f"the run was stopped while waiting for {reply_file}")
            elapsed_s += self.poll_s


def file_signature(path: Path) -> tuple[int, int]:
    """Size and modification time of a file; (0, 0) if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (status.st_size, status.st_mtime_ns)


def rename_old_reply(reply_file: Path) -> None:
    """Renames a reply to another prompt to `.old1`, `.old2`, ..., so that no reply is lost."""
    if reply_file.exists():
        number = 1
        while (target := reply_file.with_name(f"{reply_file.name}.old{number}")).exists():
            number += 1
        reply_file.rename(target)


plugin = FileExchange
