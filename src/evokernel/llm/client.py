"""A chat client for any OpenAI-compatible service: retries, rate limits, time-outs, accounting, budgets. Thread-safe."""

from __future__ import annotations

import email.utils
import hashlib
import logging
import sys
import threading
import time
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Usage
from evokernel.llm.account import UNKNOWN, Account, Row, Tokens
from evokernel.llm.limits import Bucket, Clock, SystemClock
from evokernel.llm.settings import ChatSettings, endpoint
from evokernel.llm.wire import Answer, Garbled, read_stream, read_whole, short

if TYPE_CHECKING:
    from openai import APIStatusError
    from openai.types.chat import ChatCompletionMessageParam

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 600.0
BACKOFF_S = 1.0
BACKOFF_MOST_S = 60.0


class Completion(NamedTuple):
    """A model's reply, with what all requests it took have cost."""

    text: str
    usage: Usage
    finish_reason: str


class Trouble(Exception):
    """A request failed in a way that asking again may mend."""

    def __init__(self, what: str, wait_s: float | None = None, used: Tokens = UNKNOWN) -> None:
        super().__init__(what)
        self.wait_s, self.used = wait_s, used


class ChatClient:
    """`complete` is called from many threads at once; at most `concurrency` requests are under way."""

    def __init__(self, settings: ChatSettings, clock: Clock | None = None) -> None:
        import openai

        self.settings, self.clock = settings, clock or SystemClock()
        self.endpoint = endpoint(settings)
        # Retries in two layers multiply, so the SDK does none.
        self.sdk = openai.OpenAI(api_key=self.endpoint.secret(), base_url=self.endpoint.base_url, timeout=settings.timeout_s, max_retries=0)
        self.account = Account(settings, self.endpoint.prices)
        self.slots = threading.BoundedSemaphore(settings.concurrency)
        self.requests, self.tokens = Bucket(settings.rpm, self.clock), Bucket(settings.tpm, self.clock)
        self.stop = threading.Event()

    def complete(self, messages: list[dict[str, str]], key: str = "") -> Completion:
        """The model's reply. `key` names the attempt, so that chance (back-off, the request's seed) depends on nothing else."""
        chance = Random(f"{self.settings.seed}/{key}")
        spent = Usage(model=self.settings.model)
        for retry in range(self.settings.retries + 1):
            started = self.clock.now()
            try:
                answer = self.request(messages, key, retry)
            except Trouble as trouble:
                if trouble.used != UNKNOWN:
                    spent += self.usage(trouble.used, self.clock.now() - started)
                self.back_off(trouble, retry, chance)
                continue
            return Completion(answer.text, spent + self.usage(answer.used, self.clock.now() - started), answer.finish_reason)
        raise AssertionError("unreachable: back_off raises after the last retry")

    def request(self, messages: list[dict[str, str]], key: str, retry: int) -> Answer:
        """One request within the limits, entered in the ledger however it ends."""
        estimate = sum(len(message["content"]) for message in messages) / 4
        self.pause(max(self.requests.take(1), self.tokens.take(estimate)))
        while not self.slots.acquire(timeout=0.2):
            self.pause(0)
        try:
            self.account.check()
            started, used, error = self.clock.now(), UNKNOWN, "interrupted"
            try:
                answer = self.send(messages, key)
                used, error = answer.used, ""
                return answer
            except Trouble as trouble:
                used, error = trouble.used, str(trouble)
                raise
            except UserError as refusal:
                error = str(refusal)
                raise
            finally:
                self.enter(used, self.clock.now() - started, retry, error)
                self.tokens.settle((used.read or estimate) + (used.written or 0) - estimate)
        finally:
            self.slots.release()

    def send(self, messages: list[dict[str, str]], key: str) -> Answer:
        """One request and its answer; whatever goes wrong is Trouble or the user's to mend."""
        import openai

        turns = cast("list[ChatCompletionMessageParam]", messages)
        broken: tuple[type[Exception], ...] = (openai.APIConnectionError, *transport_errors())
        create = self.sdk.chat.completions.with_streaming_response.create
        try:
            with create(model=self.settings.model, messages=turns, extra_body=self.fields(key)) as response:
                streamed = "event-stream" in response.headers.get("content-type", "")
                read = read_stream if streamed else read_whole
                return read(response.iter_bytes(), self.settings.timeout_s, self.clock.now)
        except openai.APIStatusError as error:
            return self.refused(error)
        except Garbled as garbled:
            raise Trouble(str(garbled), used=garbled.used) from garbled
        except broken as error:
            cause = error.__cause__ or error
            raise Trouble(f"{type(error).__name__} at {self.endpoint.base_url}: {short(str(cause)) or 'no answer'}") from error

    def fields(self, key: str) -> dict[str, object]:
        """The request's fields beyond model and messages."""
        settings = self.settings
        fields: dict[str, object] = {"stream": settings.stream}
        if settings.stream and self.endpoint.usage_on_request:
            fields["stream_options"] = {"include_usage": True}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens:
            fields[self.endpoint.limit] = settings.max_tokens
        if settings.send_seed:
            fields["seed"] = int.from_bytes(hashlib.sha256(f"{settings.seed}/{key}".encode()).digest()[:4], "big") >> 1
        return fields | settings.extra_fields()

    def refused(self, error: APIStatusError) -> Answer:
        """What an HTTP error means: wait and ask again, the user must do something, or the service will not answer this prompt."""
        status, said = error.status_code, short(error.body or error.message)
        code = str(getattr(error, "code", "") or "")
        model, url, name = self.settings.model, self.endpoint.base_url, self.endpoint.key
        if status == 402 or code == "insufficient_quota":
            raise UserError(f"the account at {url} has no credit left ({said}); top it up and resume")
        if status in (408, 409, 425, 429) or status >= 500:
            raise Trouble(f"HTTP {status} from {url}: {said}", retry_after(error.response.headers.get("retry-after", "")))
        if "content_filter" in code or "content_policy" in code:
            return Answer("", "content_filter", UNKNOWN)
        if status in (401, 403):
            fix = f"check the key in {name}" if name else "name the environment variable with a key in generator.api_key_env"
            raise UserError(f"{url} refused the request (HTTP {status}: {said}); {fix}")
        if status == 404:
            raise UserError(f"{url} knows no model '{model}', or nothing is there (HTTP 404: {said}); check generator.model and base_url")
        if "context_length" in code:
            raise UserError(f"the prompt is too long for {model} ({said}); lower generator.context_tokens or max_tokens")
        raise UserError(f"{url} rejected the request (HTTP {status}: {said}); change the generator setting it names")

    def back_off(self, trouble: Trouble, retry: int, chance: Random) -> None:
        """Waits before the next request, as long as the service asks or twice as long as the time before; raises after the last."""
        if retry >= self.settings.retries:
            raise InfraError(f"the model did not answer after {retry + 1} requests; last: {trouble}") from trouble
        wait_s = trouble.wait_s
        if wait_s is None:
            wait_s = min(BACKOFF_MOST_S, BACKOFF_S * 2**retry) * (0.5 + chance.random())
        if wait_s > LONGEST_WAIT_S:
            raise InfraError(f"the service asks to wait {wait_s:.0f} s: {trouble}") from trouble
        log.info("asking again in %.1f s: %s", wait_s, trouble)
        self.pause(wait_s)

    def pause(self, seconds: float) -> None:
        """Waits, unless the run is stopped."""
        if self.clock.wait(seconds, self.stop) if seconds > 0 else self.stop.is_set():
            raise StopRun("the run was stopped while waiting for the model")

    def usage(self, used: Tokens, seconds: float) -> Usage:
        """One request as the run's records count it."""
        cost = self.account.cost(used)
        return Usage(model=self.settings.model, calls=1, tokens_in=used.read, tokens_out=used.written, cost_usd=cost, seconds=seconds)

    def enter(self, used: Tokens, seconds: float, retry: int, error: str) -> None:
        """One row of the ledger."""
        cost = self.account.cost(used)
        row = Row(time.time(), self.settings.model, *used, cost, round(seconds, 3), retry, not error, error[:300])
        self.account.enter(row)


def transport_errors() -> tuple[type[Exception], ...]:
    """What the SDK's HTTP library raises while a body is read; which library that is depends on the SDK's version."""
    return tuple(sys.modules[name].RequestError for name in ("httpx", "httpx2") if name in sys.modules)


def retry_after(header: str) -> float | None:
    """Seconds a service asks to wait: a number or a date. None when it does not say."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
