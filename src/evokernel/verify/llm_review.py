"""A second look at a candidate by a model that can only veto: what the other gates refused never gets here."""

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
from evokernel.verify.strip_comments import Unreadable, bare
from evokernel.verify.trial import Trial

if TYPE_CHECKING:  # a judge that asks no model does not wait for one's client
    from evokernel.llm.client import ChatClient
    from evokernel.llm.settings import ChatSettings

log = logging.getLogger(__name__)
PROMPT = Path(__file__).parent / "audit.md"
AGAIN = "(An earlier answer was not the JSON object asked for. Answer with the object alone.)"
TIMES, WORDS = 2, 400
DEFAULTS: dict[str, Scalar] = {"timeout_s": 60.0, "retries": 2}
"""Where they differ from the generator's: a judge is waited for, and retries as a whole."""
BUDGETS = ("budget_usd", "budget_tokens")
"""Kept by whoever submits jobs: one judge of several does not know what the others spent."""
FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class Verdict(Record):
    """The form a model must answer in; anything else is no answer."""

    verdict: Literal["pass", "veto"]
    reason: str = ""


def applies(trial: Trial) -> bool:
    """Only where the run asks for it."""
    return bool(trial.job.llm_review)


def audit(trial: Trial) -> None:
    """Shows the bare code to the model, or remembers what it said about the same code before."""
    from evokernel.llm.render import one_line, render

    job = trial.job
    try:
        code = bare(job.candidate)
    except Unreadable as error:
        raise CandidateError("vetoed", f"the code cannot be looked at: {error}") from error
    settings = chat_settings(job.llm_review).model_copy(update=dict.fromkeys(BUDGETS, 0))
    question = render(PROMPT, task=job.task, backend=job.backend, code=code)
    key = hashlib.sha256(json.dumps([question, settings.model, settings.provider, settings.base_url]).encode()).hexdigest()
    place = paths.cache_folder() / "audits" / key[:2] / f"{key}.json"
    found = remembered(place)
    if found is None:
        found, usage = ask(question, settings, key)
        trial.usage = trial.usage + usage
        try:
            paths.write_bytes(place, found.model_dump_json().encode())
        except OSError as error:
            log.debug("answer not kept: %s", error)
    if found.verdict == "veto":
        raise CandidateError("vetoed", f"a second look refused it: {one_line(found.reason, WORDS) or 'no reason given'}")


def remembered(place: Path) -> Verdict | None:
    """What was answered before; None when nothing was, or it cannot be read."""
    try:
        return Verdict.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None


def ask(question: str, settings: ChatSettings, key: str) -> tuple[Verdict, Usage]:
    """The model's verdict; asked once more when it is none. InfraError when there is none then, either: nobody is to blame."""
    messages = [{"role": "user", "content": question}]
    spent = Usage()
    with own_words():
        chat = client(settings)
        for _ in range(TIMES):
            done = chat.complete(messages, key)
            spent = spent + done.usage
            if found := answer(done.text):
                return found, spent
            messages = [{"role": "user", "content": f"{question}\n{AGAIN}"}]
    chat.owed[key] = spent  # whoever asks again pays for this, too
    raise InfraError(f"{settings.model} gave no verdict that could be read, {TIMES} times")


def answer(text: str) -> Verdict | None:
    """A verdict in the form asked for; thoughts before it and a fence around it are forgiven, nothing else is."""
    from evokernel.llm.replies import plain_text

    said = plain_text(text).strip()
    fenced = FENCED.fullmatch(said)
    try:
        return Verdict.model_validate_json(fenced[1] if fenced else said)
    except ValidationError:
        return None


def chat_settings(given: Mapping[str, object]) -> ChatSettings:
    """The table `audit` as settings of a client, or one line that says what is wrong with it."""
    from evokernel.llm.settings import ChatSettings, checked

    known = sorted(ChatSettings.model_fields)
    for name in given:
        if name not in known:
            raise UserError(f"no setting 'audit.{name}'{did_you_mean(name, known)}; there are: {', '.join(known)}")
    with own_words():
        return checked(**{"model": "", **DEFAULTS, **given})


def refuse_bad_settings(given: Settings) -> None:
    """Before a run begins: names a model, at a service that is known, with a key where one is needed."""
    from evokernel.llm.settings import endpoint

    settings = chat_settings(given)
    with own_words():
        endpoint(settings).secret()


@lru_cache
def client(settings: ChatSettings) -> ChatClient:
    """One per process, so that limits on requests hold between candidates."""
    from evokernel.llm.client import ChatClient

    return ChatClient(settings)


@contextmanager
def own_words() -> Iterator[None]:
    """What the client says of the generator's settings is said of the audit's."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("generator", "audit")) from error
