"""Generates candidates with a language model behind any OpenAI-compatible service."""

from __future__ import annotations

import threading
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Outcome, Reply
from evokernel.core.state import State
from evokernel.generators.prompted import PromptedGenerator
from evokernel.generators.prompting import PromptBuilder, clean_text
from evokernel.llm.client import ChatClient, Completion
from evokernel.llm.context_budget import query_context_length, split_context
from evokernel.llm.settings import ChatSettings, parse_settings

MIN_CONTEXT = 2048
SMALL_CONTEXT = 16384
"""Models with at most this context get brief prompts by default, since they are usually small models."""
PROMPT_STYLES = ("auto", "full", "brief")


class Llm(PromptedGenerator):
    """Settings are those of `evokernel.llm.settings.ChatSettings`, and:

    `context` is the model's context length in tokens (0: ask its server if it is on this machine), `context_tokens` bounds the length of a
    prompt (estimated), `prompts` is `full`, `brief` or `auto` (brief for small contexts), `lessons` asks the model for a lesson after each
    attempt, `system` is a system message, `ledger` is a file with one line per request. `plan`, `critic`, `repair_attempts`
    and `prompt_variants` are those of `PromptedGenerator`, `feedback` that of `PromptBuilder`.
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
        tuning_trials: int = 0,
        plan: bool = False,
        critic: bool = False,
        repair_attempts: int = 0,
        prompt_variants: bool = False,
        feedback: str = "code",
    ) -> None:
        settings = dict(locals())
        if context and context < MIN_CONTEXT:
            raise UserError(f"generator.context = {context} is too small for a prompt: set it to at least {MIN_CONTEXT} tokens")
        if prompts not in PROMPT_STYLES:
            raise UserError(f"generator.prompts = '{prompts}' must be one of {', '.join(PROMPT_STYLES)}")
        self.client = ChatClient(parse_settings(**{name: settings[name] for name in ChatSettings.model_fields}))
        context = context or query_context_length(self.client.endpoint, self.client.settings.model)
        brief = prompts == "brief" or (prompts == "auto" and 0 < context <= SMALL_CONTEXT)
        prompt_tokens = self.bound_prompt(context, context_tokens)
        prompt_builder = PromptBuilder(backend, prompt_tokens, brief, self.client.settings.max_tokens, tuning_trials > 0, feedback=feedback)
        super().__init__(prompt_builder, plan=plan, critic=critic, repair_attempts=repair_attempts, prompt_variants=prompt_variants)
        self.lessons, self.system = lessons, system
        if ledger:
            self.ledger = Path(ledger)

    def bound_prompt(self, context: int, context_tokens: int) -> int:
        """The estimated tokens a prompt may have. If the server reports its context, this also bounds the reply."""
        if not context:
            return context_tokens
        budget = split_context(context, self.client.settings.max_tokens)
        if self.client.endpoint.context_length:  # our own server would generate until the context is full
            self.client.settings = self.client.settings.model_copy(update={"max_tokens": budget.reply_tokens})
        return min(context_tokens, budget.prompt_tokens)

    @property
    def ledger(self) -> Path | None:
        """The file with one line per request; setting it counts the requests it already contains against the budgets."""
        return self.client.cost_tracker.ledger

    @ledger.setter
    def ledger(self, path: Path) -> None:
        self.client.cost_tracker.open_ledger(path)

    @property
    def stop(self) -> threading.Event:
        """An event that ends the wait before a retry when it is set."""
        return self.client.stop_event

    @stop.setter
    def stop(self, event: threading.Event) -> None:
        self.client.stop_event = event

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """The model's lesson from the outcome, if `lessons` is set and there is a kernel."""
        if not self.lessons or not candidate.files:
            return None
        prompt = self.prompts.build_lesson_prompt(state, candidate, outcome)
        completion = self.complete(prompt, f"{state.next_id}/lesson")
        empty = Candidate(backend=candidate.backend, files={}, usage=completion.usage)
        return Reply(candidate=empty, prompt=prompt, text=clean_text(completion.text))

    def complete(self, prompt: str, key: str) -> Completion:
        """The model's completion of one prompt."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self.client.complete([*system, {"role": "user", "content": prompt}], key)


plugin = Llm
