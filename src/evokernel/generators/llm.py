"""Asks a language model through any OpenAI-compatible service."""

from __future__ import annotations

import threading
from pathlib import Path

from evokernel.core.records import Candidate, Context, Outcome, Reply, State
from evokernel.generators.prompting import Prompts, lesson_text
from evokernel.llm.client import ChatClient, Completion
from evokernel.llm.settings import ChatSettings, checked


class Llm:
    """Settings are those of `evokernel.llm.settings.ChatSettings`, and: `context_tokens` bounds a prompt (estimated), `lessons` asks the
    model what each attempt has taught, `system` is a system message, `ledger` a file for one line per request.
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
        context_tokens: int = 24000,
        lessons: bool = False,
        system: str = "",
        ledger: str = "",
    ) -> None:
        given = dict(locals())
        self.client = ChatClient(checked(**{name: given[name] for name in ChatSettings.model_fields}))
        self.prompts = Prompts(backend, context_tokens)
        self.lessons, self.system = lessons, system
        if ledger:
            self.ledger = Path(ledger)

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
        prompt = self.prompts.write(state, context)
        done = self.ask(prompt, state.next_id)
        candidate = self.prompts.candidate(done.text, state.task, done.usage)
        if not candidate.files and done.finish_reason in ("length", "content_filter"):
            why = {"length": "the model reached its token limit before it had finished", "content_filter": "the service filtered the reply"}
            candidate = candidate.model_copy(update={"notes": f"{why[done.finish_reason]}; {candidate.notes}"})
        return Reply(candidate=candidate, prompt=prompt, text=writable(done.text))

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
