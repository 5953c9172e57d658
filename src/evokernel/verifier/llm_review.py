"""The review gate: a language model reads a correct candidate and may veto it. It sees no candidate that another gate refused."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Record, Scalar, Settings, Usage
from evokernel.verifier.strip_comments import UnreadableCode, strip_candidate
from evokernel.verifier.trial import Trial

if TYPE_CHECKING:  # a verifier without review does not wait for the client's imports
    from evokernel.llm.client import ChatClient
    from evokernel.llm.settings import ChatSettings

log = logging.getLogger(__name__)
PROMPT = Path(__file__).parent / "llm_review.md"
RETRY_NOTE = "(Your previous answer was not the required JSON object. Answer with the object alone.)"
MAX_REQUESTS, MAX_REASON_CHARS = 2, 400
DEFAULTS: dict[str, Scalar] = {"timeout_s": 60.0, "retries": 2}
"""Differences from the generator's defaults: the run waits for the verifier, and the verifier itself retries."""
BUDGET_SETTINGS = ("budget_usd", "budget_tokens")
"""The run enforces budgets when it submits jobs: one verifier of several does not know what the others spent."""
FENCED_JSON = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class ReviewVerdict(Record):
    """The format in which the model must answer; any other text is not a verdict."""

    verdict: Literal["pass", "veto"]
    reason: str = ""


def is_requested(trial: Trial) -> bool:
    """Whether the run requests an LLM review."""
    return bool(trial.job.llm_review)


def review_candidate(trial: Trial) -> None:
    """Run the review gate: show the stripped code to the model, or reuse its cached verdict on the same code."""
    from evokernel.llm.render import one_line, render_prompt

    job = trial.job
    try:
        code = strip_candidate(job.candidate)
    except UnreadableCode as error:
        raise CandidateError("vetoed", f"the LLM review cannot read the code: {error}") from error
    settings = make_chat_settings(job.llm_review).model_copy(update=dict.fromkeys(BUDGET_SETTINGS, 0))
    question = render_prompt(PROMPT, task=job.task, backend=job.backend, code=code)
    key = hashlib.sha256(json.dumps([question, settings.model, settings.provider, settings.base_url]).encode()).hexdigest()
    path = paths.cache_folder() / "reviews" / key[:2] / f"{key}.json"
    verdict = load_cached_verdict(path)
    if verdict is None:
        verdict, usage = request_verdict(question, settings, key)
        trial.usage = trial.usage + usage
        try:
            paths.write_bytes(path, verdict.model_dump_json().encode())
        except OSError as error:
            log.debug("review verdict not cached: %s", error)
    if verdict.verdict == "veto":
        raise CandidateError(
            "vetoed", f"the LLM review refused the kernel: {one_line(verdict.reason, MAX_REASON_CHARS) or 'the model gave no reason'}"
        )


def load_cached_verdict(path: Path) -> ReviewVerdict | None:
    """Return the cached verdict, or None if there is none or it cannot be read."""
    try:
        return ReviewVerdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def request_verdict(question: str, settings: ChatSettings, key: str) -> tuple[ReviewVerdict, Usage]:
    """Ask the model for a verdict, a second time if the first answer is invalid. Raise InfraError if both are: neither side is to blame."""
    messages = [{"role": "user", "content": question}]
    usage = Usage()
    with name_review_in_errors():
        chat = get_client(settings)
        for _ in range(MAX_REQUESTS):
            completion = chat.complete(messages, key)
            usage = usage + completion.usage
            if verdict := parse_verdict(completion.text):
                return verdict, usage
            messages = [{"role": "user", "content": f"{question}\n{RETRY_NOTE}"}]
    chat.failed_usage[key] = usage  # the next request for this key also reports this usage
    raise InfraError(f"the reviewing model {settings.model} gave no valid verdict in {MAX_REQUESTS} requests")


def parse_verdict(text: str) -> ReviewVerdict | None:
    """Parse a verdict in the required format; a thinking section before it and a code fence around it are accepted, nothing else."""
    from evokernel.llm.replies import strip_thoughts

    answer = strip_thoughts(text).strip()
    fence_match = FENCED_JSON.fullmatch(answer)
    try:
        return ReviewVerdict.model_validate_json(fence_match[1] if fence_match else answer)
    except ValidationError:
        return None


def make_chat_settings(settings: Mapping[str, object]) -> ChatSettings:
    """Convert the settings table `llm_review` to client settings, or raise UserError in one line."""
    from evokernel.llm.settings import ChatSettings, parse_settings

    setting_names = sorted(ChatSettings.model_fields)
    for name in settings:
        if name not in setting_names:
            raise UserError(
                f"unknown setting 'llm_review.{name}'{did_you_mean(name, setting_names)}; available settings: {', '.join(setting_names)}"
            )
    with name_review_in_errors():
        return parse_settings(**{"model": "", **DEFAULTS, **settings})


def check_review_settings(settings_table: Settings) -> None:
    """Raise UserError before a run begins if the settings name no model, an unknown service, a key that is not set, or a
    budget in USD without a price."""
    from evokernel.llm.cost_tracker import CostTracker
    from evokernel.llm.settings import resolve_endpoint

    settings = make_chat_settings(settings_table)
    with name_review_in_errors():
        endpoint = resolve_endpoint(settings)
        endpoint.read_api_key()
        CostTracker(settings, endpoint.price_provider, "llm_review").require_price()


@lru_cache
def get_client(settings: ChatSettings) -> ChatClient:
    """Return one client per process, so that request limits apply across candidates."""
    from evokernel.llm.client import ChatClient

    return ChatClient(settings)


@contextmanager
def name_review_in_errors() -> Iterator[None]:
    """Name the table `llm_review` instead of `generator` in the client's error messages."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("generator", "llm_review")) from error
