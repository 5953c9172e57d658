"""Asks a language model through any OpenAI-compatible service."""

from __future__ import annotations

import threading
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Context, Outcome, Reply, State
from evokernel.generators.prompting import Prompts, lesson_text
from evokernel.llm.client import ChatClient, Completion
from evokernel.llm.context_budget import asked, room
from evokernel.llm.settings import ChatSettings, checked

LEAST_CONTEXT = 2048
SMALL_CONTEXT = 16384
"""Up to here a model gets brief prompts unless told otherwise: one that reads no more is small in other ways, too."""
PROMPTS = ("auto", "full", "brief")


class Llm:
    """Settings are those of `evokernel.llm.settings.ChatSettings`, and: `context` is what the model reads and writes at once, in tokens
    (0: as its server says, where that is on this machine), `context_tokens` bounds a prompt (estimated) whatever the model could read,
    `prompts` is `full`, `brief` or `auto` (brief for small contexts), `lessons` asks the model what each attempt has taught, `system` is a
    system message, `ledger` a file for one line per request.
    """

    def __init__(
        self,
        backend: str,
        model: str = "",
        provider: str = "",
        base_url: str = "",
        api_key_env: str = "",
        temperature: float | None = None,
        max_tokens: int = 0,
        timeout_s: float = 600,
        retries: int = 5,
        concurrency: int = 8,
        rpm: float = 0,
        tpm: float = 0,
        stream: bool = True,
        budget_usd: float = 0,
        budget_tokens: int = 0,
        price_in: float | None = None,
        price_out: float | None = None,
        seed: int = 0,
        send_seed: bool = False,
        extra: str = "",
        context: int = 0,
        context_tokens: int = 24000,
        prompts: str = "auto",
        lessons: bool = False,
        system: str = "",
        ledger: str = "",
    ) -> None:
        given = dict(locals())
        if context and context < LEAST_CONTEXT:
            raise UserError(f"generator.context = {context} is too small for any prompt: give at least {LEAST_CONTEXT} tokens")
        if prompts not in PROMPTS:
            raise UserError(f"generator.prompts = '{prompts}' must be one of {', '.join(PROMPTS)}")
        self.client = ChatClient(checked(**{name: given[name] for name in ChatSettings.model_fields}))
        context = context or asked(self.client.endpoint, self.client.settings.model)
        brief = prompts == "brief" or (prompts == "auto" and 0 < context <= SMALL_CONTEXT)
        fits = self.bounded(context, context_tokens)
        self.prompts = Prompts(backend, fits, brief, self.client.settings.max_tokens)
        self.lessons, self.system = lessons, system
        if ledger:
            self.ledger = Path(ledger)

    def bounded(self, context: int, context_tokens: int) -> int:
        """Tokens for a prompt, by estimate. Where prompt and reply share a context, a reply is bounded, too."""
        if not context:
            return context_tokens
        fits = room(context, self.client.settings.max_tokens)
        if self.client.endpoint.context:  # our own server would go on until the context is full
            self.client.settings = self.client.settings.model_copy(update={"max_tokens": fits.reply})
        return min(context_tokens, fits.prompt)

    @property
    def ledger(self) -> Path | None:
        """The file with one line per request; setting it also counts what is in it against the budgets."""
        return self.client.account.ledger

    @ledger.setter
    def ledger(self, path: Path) -> None:
        self.client.account.open(path)

    @property
    def stop(self) -> threading.Event:
        """Set while it waits to ask again, it ends the wait."""
        return self.client.stop

    @stop.setter
    def stop(self, event: threading.Event) -> None:
        self.client.stop = event

    def write(self, state: State, context: Context) -> Reply:
        """A candidate from the model's reply; an empty one, with the reason in its notes, when the reply holds no code."""
        prompt = self.prompts.fitted(state, context)
        done = self.ask(prompt.text, state.next_id)
        candidate = self.prompts.candidate(done.text, state.task, done.usage)
        if not candidate.files and done.finish_reason in ("length", "content_filter"):
            why = {"length": "the model reached its token limit before it had finished", "content_filter": "the service filtered the reply"}
            candidate = candidate.model_copy(update={"notes": f"{why[done.finish_reason]}; {candidate.notes}"})
        return Reply(candidate=candidate, prompt=prompt.text, text=writable(done.text), truncated_items=prompt.left_out)

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """What the model makes of the verdict, when lessons are asked for and there is a kernel to learn from."""
        if not self.lessons or not candidate.files:
            return None
        prompt = self.prompts.lesson(state, candidate, outcome)
        done = self.ask(prompt, f"{state.next_id}/lesson")
        return Reply(candidate=Candidate(backend=candidate.backend, files={}, usage=done.usage), prompt=prompt, text=lesson_text(done.text))

    def ask(self, prompt: str, key: str) -> Completion:
        """One question to the model."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self.client.complete([*system, {"role": "user", "content": prompt}], key)


def writable(text: str) -> str:
    """The reply as it can be kept in a file: half of a surrogate pair cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


plugin = Llm
