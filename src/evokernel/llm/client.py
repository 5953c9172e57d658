"""A thread-safe chat client for any OpenAI-compatible service, with retries, rate limits, time-outs, cost tracking and budgets."""

from __future__ import annotations

import email.utils
import logging
import sys
import threading
import time
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Usage
from evokernel.core.seeds import seed_from_text
from evokernel.llm.cost_tracker import UNKNOWN_TOKENS, CostTracker, RequestRow, TokenCounts
from evokernel.llm.rate_limits import Clock, SystemClock, TokenBucket
from evokernel.llm.response import ChatResponse, MalformedResponse, PartialResponse, read_body, read_stream, summarize
from evokernel.llm.settings import ChatSettings, Endpoint, resolve_endpoint

if TYPE_CHECKING:
    from openai import APIStatusError
    from openai.types.chat import ChatCompletionMessageParam

log = logging.getLogger(__name__)

MAX_WAIT_S = 600.0
BACKOFF_S = 1.0
LOCAL_TIMEOUT_S = 3600.0
"""Time-out for a local model, which may read a long prompt at a few tokens per second before its first token."""
MAX_BACKOFF_S = 60.0


class Completion(NamedTuple):
    """A model's reply, with the usage of all requests that it took."""

    text: str
    usage: Usage
    finish_reason: str


class RetryableError(Exception):
    """A request failed in a way that may succeed when repeated."""

    def __init__(self, message: str, wait_s: float | None = None, tokens: TokenCounts = UNKNOWN_TOKENS) -> None:
        super().__init__(message)
        self.wait_s, self.tokens = wait_s, tokens
        self.usage = Usage()


class ChatClient:
    """Sends chat requests. Many threads may call `complete` at once; at most `concurrency` requests run at a time."""

    def __init__(self, settings: ChatSettings, clock: Clock | None = None) -> None:
        import openai

        settings, self.endpoint = resolve_settings(settings)
        self.settings, self.clock = settings, clock or SystemClock()
        # Retries in two layers multiply, so the SDK does none.
        sdks = [
            openai.OpenAI(api_key=self.endpoint.read_api_key(), base_url=url, timeout=settings.timeout_s, max_retries=0)
            for url in (self.endpoint.base_url, *self.endpoint.other_urls)
        ]
        self.sdk_pool: SimpleQueue[openai.OpenAI] = SimpleQueue()
        for number in range(settings.concurrency):
            self.sdk_pool.put(sdks[number % len(sdks)])
        self.cost_tracker = CostTracker(settings, self.endpoint.price_provider)
        self.cost_tracker.require_price()
        self.slots = threading.BoundedSemaphore(settings.concurrency)
        self.request_bucket, self.token_bucket = TokenBucket(settings.rpm, self.clock), TokenBucket(settings.tpm, self.clock)
        self.stop_event = threading.Event()
        self.announced_errors: set[str] = set()
        self.failed_usage: dict[str, Usage] = {}
        """By key: the usage of requests without a reply. When the attempt is repeated, its completion includes this usage."""

    def complete(self, messages: list[dict[str, str]], key: str = "") -> Completion:
        """The model's reply. `key` names the attempt; random choices (back-off, the request's seed) depend only on it and the seed."""
        random = Random(f"{self.settings.seed}/{key}")
        total_usage = self.failed_usage.pop(key, Usage())
        for retry in range(self.settings.retries + 1):
            try:
                response, usage = self.send_within_limits(messages, key, retry)
            except RetryableError as error:
                total_usage = self.failed_usage[key] = total_usage + error.usage
                self.back_off(error, retry, random)
                continue
            self.failed_usage.pop(key, None)
            return Completion(response.text, total_usage + usage, response.finish_reason)
        raise AssertionError("unreachable: back_off raises after the last retry")

    def send_within_limits(self, messages: list[dict[str, str]], key: str, retry: int) -> tuple[ChatResponse, Usage]:
        """Send one request within the rate limits and the budget; record its cost whether it succeeds or fails."""
        estimate = sum(len(message["content"]) for message in messages) / 4
        self.pause(max(self.request_bucket.reserve(1), self.token_bucket.reserve(estimate)))
        while not self.slots.acquire(timeout=0.2):
            self.pause(0)
        try:
            self.cost_tracker.check_budget()
            start_time = self.clock.now()
            try:
                response = self.send_request(messages, key)
            except RetryableError as error:
                usage = self.record_request(error.tokens, estimate, start_time, key, retry, str(error))
                # The usage of a failed request counts only if the service reported it; otherwise only the ledger shows the request.
                error.usage = usage if error.tokens != UNKNOWN_TOKENS else Usage()
                raise
            except UserError as error:
                self.record_request(UNKNOWN_TOKENS, estimate, start_time, key, retry, str(error))
                raise
            return response, self.record_request(response.tokens, estimate, start_time, key, retry)
        finally:
            self.slots.release()

    def record_request(self, tokens: TokenCounts, estimate: float, start_time: float, key: str, retry: int, error: str = "") -> Usage:
        """Enter a request in the ledger, replace the estimate in the token limit by the actual count, and return the usage."""
        seconds, cost, model = self.clock.now() - start_time, self.cost_tracker.request_cost(tokens), self.settings.model
        row = RequestRow(time.time(), model, *tokens, cost, round(seconds, 3), retry, not error, error[:300], key)
        self.cost_tracker.record_request(row)
        actual = (estimate if tokens.input_tokens is None else tokens.input_tokens) + (tokens.output_tokens or 0)
        self.token_bucket.correct(actual - estimate)
        return Usage(
            model=model, calls=1, input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens, cost_usd=cost, seconds=seconds
        )

    def send_request(self, messages: list[dict[str, str]], key: str) -> ChatResponse:
        """Send one request; every failure becomes a RetryableError or a UserError."""
        import openai

        turns = cast("list[ChatCompletionMessageParam]", messages)
        retryable: tuple[type[Exception], ...] = (MalformedResponse, openai.APIConnectionError, *transport_errors())
        sdk = self.sdk_pool.get()
        create = sdk.chat.completions.with_streaming_response.create
        partial = PartialResponse()
        try:
            with create(model=self.settings.model, messages=turns, extra_body=self.request_fields(key)) as response:
                is_stream = "event-stream" in response.headers.get("content-type", "")
                read = read_stream if is_stream else read_body
                return read(response.iter_bytes(), partial, self.settings.timeout_s, self.clock.now)
        except openai.APIStatusError as error:
            return self.handle_http_error(error)
        except retryable as error:
            if partial.finish_reason:  # the text is complete and only the end of the stream is missing: do not pay twice
                return partial.to_response()
            reason = summarize(str(error.__cause__ or error)) or "no response"
            raise RetryableError(f"{type(error).__name__} at {sdk.base_url}: {reason}", tokens=partial.tokens) from error
        finally:
            self.sdk_pool.put(sdk)

    def request_fields(self, key: str) -> dict[str, object]:
        """The fields of the request in addition to model and messages."""
        settings = self.settings
        fields: dict[str, object] = {"stream": settings.stream}
        if settings.stream and self.endpoint.usage_on_request:
            fields["stream_options"] = {"include_usage": True}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens:
            fields[self.endpoint.max_tokens_field] = settings.max_tokens
        if settings.send_seed:
            fields["seed"] = seed_from_text(f"{settings.seed}/{key}", bits=31)
        return fields | settings.extra_fields()

    def handle_http_error(self, error: APIStatusError) -> ChatResponse:
        """Classify an HTTP error: raise RetryableError or UserError, or return an empty response for a filtered prompt."""
        status, reason = error.status_code, summarize(error.body or error.message)
        code = str(getattr(error, "code", "") or "")
        model, url, key_variable = self.settings.model, self.endpoint.base_url, self.endpoint.key_variable
        if status == 402 or code == "insufficient_quota":
            raise UserError(f"the account at {url} has no credit left ({reason}); top it up and resume")
        if status in (408, 409, 425, 429) or status >= 500:
            raise RetryableError(f"HTTP {status} from {url}: {reason}", parse_retry_after(error.response.headers.get("retry-after", "")))
        if "content_filter" in code or "content_policy" in code:
            return ChatResponse("", "content_filter", UNKNOWN_TOKENS)
        if status in (401, 403):
            fix = f"check the key in {key_variable or 'the environment'}, or name another variable with generator.api_key_env"
            raise UserError(f"{url} refused the request (HTTP {status}: {reason}); {fix}")
        if status == 404:
            raise UserError(f"{url} has no model '{model}', or no chat service (HTTP 404: {reason}); check generator.model and base_url")
        if "context_length" in code or "exceed_context" in str(getattr(error, "type", "") or error.body):
            raise UserError(
                f"the prompt is too long for {model} ({reason}); set generator.context to the model's context length, or lower max_tokens"
            )
        raise UserError(f"{url} rejected the request (HTTP {status}: {reason}); change the generator setting that it names")

    def back_off(self, error: RetryableError, retry: int, random: Random) -> None:
        """Wait before the next request: as long as the service asks, or exponentially longer each time. Raise after the last retry."""
        if retry >= self.settings.retries:
            raise InfraError(f"the model did not answer after {retry + 1} request{'s' * (retry > 0)}; last error: {error}") from error
        wait_s = error.wait_s
        if wait_s is None:
            wait_s = min(MAX_BACKOFF_S, BACKOFF_S * 2**retry) * (0.5 + random.random())
        if wait_s > MAX_WAIT_S:
            raise InfraError(f"the service asks to wait {wait_s:.0f} s: {error}") from error
        level = logging.INFO if str(error) in self.announced_errors else logging.WARNING  # many tasks wait for the same service
        self.announced_errors.add(str(error))
        log.log(level, "%s; repeating the request in %.1f s, up to %d times", error, wait_s, self.settings.retries - retry)
        self.pause(wait_s)

    def pause(self, seconds: float) -> None:
        """Wait; raise StopRun if the run is stopped."""
        if self.clock.wait(seconds, self.stop_event) if seconds > 0 else self.stop_event.is_set():
            raise StopRun("the run was stopped while waiting for the model")


def resolve_settings(settings: ChatSettings) -> tuple[ChatSettings, Endpoint]:
    """The settings and their endpoint. For the model `local`, these are those of the server on this machine, which is started if needed."""
    if not settings.is_local:
        return settings, resolve_endpoint(settings)
    from evokernel.llm import local_server

    server = local_server.ensure_running()
    urls = [f"{instance.url}/v1" for instance in server.instances]
    changes = {"model": server.model, "price_in": 0.0, "price_out": 0.0, "concurrency": len(urls)}
    changes["timeout_s"] = max(settings.timeout_s, LOCAL_TIMEOUT_S)
    return settings.model_copy(update=changes), Endpoint(urls[0], "", other_urls=tuple(urls[1:]), context_length=server.context)


def transport_errors() -> tuple[type[Exception], ...]:
    """The exceptions that the SDK's HTTP library raises while reading a body; the library depends on the SDK version."""
    return tuple(sys.modules[name].RequestError for name in ("httpx", "httpx2") if name in sys.modules)


def parse_retry_after(header: str) -> float | None:
    """The seconds to wait from a Retry-After header, which is a number or a date; None if it is neither."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
