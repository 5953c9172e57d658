"""A chat client for any OpenAI-compatible service: retries, rate limits, time-outs, accounting, budgets. Thread-safe."""

from __future__ import annotations

import email.utils
import hashlib
import logging
import sys
import threading
import time
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Usage
from evokernel.llm.cost_tracker import UNKNOWN, Account, Row, Tokens
from evokernel.llm.rate_limits import Bucket, Clock, SystemClock
from evokernel.llm.response import Answer, Garbled, Partial, read_stream, read_whole, short
from evokernel.llm.settings import ChatSettings, Endpoint, endpoint

if TYPE_CHECKING:
    from openai import APIStatusError
    from openai.types.chat import ChatCompletionMessageParam

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 600.0
BACKOFF_S = 1.0
SLOW_S = 3600.0
"""What a model on a processor may take before its first word: a long prompt is read at a few tokens a second."""
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
        self.usage = Usage()


class ChatClient:
    """`complete` is called from many threads at once; at most `concurrency` requests are under way."""

    def __init__(self, settings: ChatSettings, clock: Clock | None = None) -> None:
        import openai

        settings, self.endpoint = found(settings)
        self.settings, self.clock = settings, clock or SystemClock()
        # Retries in two layers multiply, so the SDK does none.
        made = [
            openai.OpenAI(api_key=self.endpoint.secret(), base_url=url, timeout=settings.timeout_s, max_retries=0)
            for url in (self.endpoint.base_url, *self.endpoint.others)
        ]
        self.sdks: SimpleQueue[openai.OpenAI] = SimpleQueue()
        for number in range(settings.concurrency):
            self.sdks.put(made[number % len(made)])
        self.account = Account(settings, self.endpoint.prices)
        self.slots = threading.BoundedSemaphore(settings.concurrency)
        self.requests, self.tokens = Bucket(settings.rpm, self.clock), Bucket(settings.tpm, self.clock)
        self.stop = threading.Event()
        self.owed: dict[str, Usage] = {}
        """By key: what was paid for requests that led to no reply. The attempt is made again, and its reply brings this along."""

    def complete(self, messages: list[dict[str, str]], key: str = "") -> Completion:
        """The model's reply. `key` names the attempt, so that chance (back-off, the request's seed) depends on nothing else."""
        chance = Random(f"{self.settings.seed}/{key}")
        spent = self.owed.pop(key, Usage())
        for retry in range(self.settings.retries + 1):
            try:
                answer, usage = self.request(messages, key, retry)
            except Trouble as trouble:
                spent = self.owed[key] = spent + trouble.usage
                self.back_off(trouble, retry, chance)
                continue
            self.owed.pop(key, None)
            return Completion(answer.text, spent + usage, answer.finish_reason)
        raise AssertionError("unreachable: back_off raises after the last retry")

    def request(self, messages: list[dict[str, str]], key: str, retry: int) -> tuple[Answer, Usage]:
        """One request within the limits, booked however it ends."""
        estimate = sum(len(message["content"]) for message in messages) / 4
        self.pause(max(self.requests.take(1), self.tokens.take(estimate)))
        while not self.slots.acquire(timeout=0.2):
            self.pause(0)
        try:
            self.account.check()
            started = self.clock.now()
            try:
                answer = self.send(messages, key)
            except Trouble as trouble:
                usage = self.book(trouble.used, estimate, started, retry, str(trouble))
                # A failed request counts where the service said what it took; where it did not, only the ledger shows it.
                trouble.usage = usage if trouble.used != UNKNOWN else Usage()
                raise
            except UserError as refusal:
                self.book(UNKNOWN, estimate, started, retry, str(refusal))
                raise
            return answer, self.book(answer.used, estimate, started, retry)
        finally:
            self.slots.release()

    def book(self, used: Tokens, estimate: float, started: float, retry: int, error: str = "") -> Usage:
        """Enters a request in the ledger, corrects the estimate that was taken from the token limit, and says what it cost."""
        seconds, cost, model = self.clock.now() - started, self.account.cost(used), self.settings.model
        self.account.enter(Row(time.time(), model, *used, cost, round(seconds, 3), retry, not error, error[:300]))
        self.tokens.settle((estimate if used.read is None else used.read) + (used.written or 0) - estimate)
        return Usage(model=model, calls=1, input_tokens=used.read, output_tokens=used.written, cost_usd=cost, seconds=seconds)

    def send(self, messages: list[dict[str, str]], key: str) -> Answer:
        """One request and its answer; whatever goes wrong is Trouble or the user's to mend."""
        import openai

        turns = cast("list[ChatCompletionMessageParam]", messages)
        broken: tuple[type[Exception], ...] = (Garbled, openai.APIConnectionError, *transport_errors())
        sdk = self.sdks.get()
        create = sdk.chat.completions.with_streaming_response.create
        partial = Partial()
        try:
            with create(model=self.settings.model, messages=turns, extra_body=self.fields(key)) as response:
                streamed = "event-stream" in response.headers.get("content-type", "")
                read = read_stream if streamed else read_whole
                return read(response.iter_bytes(), partial, self.settings.timeout_s, self.clock.now)
        except openai.APIStatusError as error:
            return self.refused(error)
        except broken as error:
            if partial.finish_reason:  # all of the text is there: what broke off is the rest of the stream, and nobody pays twice
                return partial.answer()
            what = short(str(error.__cause__ or error)) or "no answer"
            raise Trouble(f"{type(error).__name__} at {sdk.base_url}: {what}", used=partial.used) from error
        finally:
            self.sdks.put(sdk)

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
            fix = f"check the key in {name or 'the environment'}, or name another variable with generator.api_key_env"
            raise UserError(f"{url} refused the request (HTTP {status}: {said}); {fix}")
        if status == 404:
            raise UserError(f"{url} knows no model '{model}', or nothing is there (HTTP 404: {said}); check generator.model and base_url")
        if "context_length" in code or "exceed_context" in str(getattr(error, "type", "") or error.body):
            raise UserError(f"the prompt is too long for {model} ({said}); set generator.context to what it reads, or lower max_tokens")
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


def found(settings: ChatSettings) -> tuple[ChatSettings, Endpoint]:
    """Settings and address; for the model `local`, those of the server on this machine, which is started where it is not running."""
    if not settings.is_local:
        return settings, endpoint(settings)
    from evokernel.llm import local_server

    served = local_server.ready()
    urls = [f"{one.url}/v1" for one in served.instances]
    known = {"model": served.model, "price_in": 0.0, "price_out": 0.0, "concurrency": len(urls)}
    known["timeout_s"] = max(settings.timeout_s, SLOW_S)
    return settings.model_copy(update=known), Endpoint(urls[0], "", others=tuple(urls[1:]), context=served.context)


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
