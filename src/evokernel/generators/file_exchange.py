"""Asks through files: prompts are put into a folder, and whoever reads there puts the replies beside them. It may take days."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, State, Usage
from evokernel.core.run import atomic_write
from evokernel.generators.prompting import Prompts

log = logging.getLogger(__name__)


class Mailbox:
    """Puts `<attempt>.prompt.md` into `folder` (with `--` for each `/` of the attempt's id) and waits for `<attempt>.reply.md`.

    A reply counts once it is not empty and has not changed for two looks, `poll_s` apart. `timeout_s` 0 waits for ever. A reply that is
    there already answers the same prompt again, so a resumed run asks nobody twice; one to another prompt is moved aside.
    """

    def __init__(self, backend: str, folder: str = "mailbox", poll_s: float = 1, timeout_s: float = 0, context_tokens: int = 24000) -> None:
        if poll_s <= 0:
            raise ValueError(f"poll_s must be above 0, not {poll_s}")
        if timeout_s < 0:
            raise ValueError(f"timeout_s must be 0 (wait for ever) or more, not {timeout_s}")
        self.folder, self.poll_s, self.timeout_s = Path(folder), poll_s, timeout_s
        self.prompts = Prompts(backend, context_tokens)
        self.stop = threading.Event()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"generator 'file_exchange' cannot use {folder}: {error.strerror or error}; set generator.folder to another"
            ) from error

    def write(self, state: State, context: Context) -> Reply:
        """A candidate from the reply someone wrote."""
        prompt = self.prompts.fitted(state, context)
        started = time.monotonic()
        text = self.ask(prompt.text, state.next_id.replace("/", "--"))
        usage = Usage(model="mailbox", calls=1, seconds=time.monotonic() - started)
        return Reply(
            candidate=self.prompts.candidate(text, state.task, usage), prompt=prompt.text, text=text, truncated_items=prompt.left_out
        )

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """People are asked for kernels only."""
        return None

    def ask(self, prompt: str, name: str) -> str:
        """Puts the question, unless it is there already, and waits for the answer."""
        question, answer = self.folder / f"{name}.prompt.md", self.folder / f"{name}.reply.md"
        if not question.exists() or question.read_bytes() != prompt.encode():
            set_aside(answer)
            atomic_write(question, prompt)
            log.info("waiting for %s", answer)
        waited, seen, same = 0.0, (-1, -1), 0
        while True:
            now = stamp(answer)
            same = same + 1 if now == seen else 0
            seen = now
            if now[0] > 0 and same >= 2:
                return answer.read_text(encoding="utf-8", errors="replace")
            if self.timeout_s and waited >= self.timeout_s:
                raise InfraError(f"no reply in {answer} within {self.timeout_s:g} s")
            if self.stop.wait(self.poll_s):
                raise StopRun(f"the run was stopped while waiting for {answer}")
            waited += self.poll_s


def stamp(path: Path) -> tuple[int, int]:
    """Size and time of the last change; a size of 0 when there is no such file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (status.st_size, status.st_mtime_ns)


def set_aside(answer: Path) -> None:
    """Renames a reply that was written for another prompt; nothing someone wrote is thrown away."""
    if answer.exists():
        number = 1
        while (other := answer.with_name(f"{answer.name}.old{number}")).exists():
            number += 1
        answer.rename(other)


plugin = Mailbox
