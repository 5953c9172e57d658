"""Read one chat response, streamed or as a single body, and detect when it stalls, breaks off or is malformed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from evokernel.llm.cost_tracker import UNKNOWN_TOKENS, TokenCounts

BODY_BYTES = 16_000_000


class ChatResponse(NamedTuple):
    """A complete response."""

    text: str
    finish_reason: str
    tokens: TokenCounts


class MalformedResponse(Exception):
    """The service sent no complete response; repeating the request may help."""


@dataclass
class PartialResponse:
    """A response while it arrives; `tokens` stays available if the rest never comes."""

    text: list[str] = field(default_factory=list)
    finish_reason: str = ""
    tokens: TokenCounts = UNKNOWN_TOKENS
    is_done: bool = False

    def add_event(self, event: dict[str, object]) -> None:
        """Add the text, finish reason and usage of a stream event or of a complete body."""
        if isinstance(event.get("usage"), dict):
            self.tokens = parse_usage(cast("dict[str, object]", event["usage"]))
        if event.get("error"):
            raise MalformedResponse(f"the service reported an error in its response: {summarize(event['error'])}")
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        message = choices[0].get("delta") or choices[0].get("message") or {}
        if not isinstance(message, dict):
            raise MalformedResponse("the response has a message of an unknown form")
        self.text.append(message_text(message.get("content")) or message_text(message.get("refusal")))
        self.finish_reason = str(choices[0].get("finish_reason") or self.finish_reason)

    def to_response(self) -> ChatResponse:
        """The complete response; MalformedResponse if the service did not mark its end."""
        if not (self.finish_reason or (self.is_done and self.text)):
            raise MalformedResponse("the response broke off")
        return ChatResponse("".join(self.text), self.finish_reason, self.tokens)


def read_stream(chunks: Iterable[bytes], partial: PartialResponse, stall_s: float, now: Callable[[], float]) -> ChatResponse:
    """Read a response from server-sent events. Comments and blank lines do not count as progress: they only keep a connection open."""
    last = now()
    for line in split_lines(chunks):
        if line.startswith(b"data:"):
            last = now()
            data = line[5:].strip()
            if data == b"[DONE]":
                partial.is_done = True
                break
            partial.add_event(parse_object(data))
        elif now() - last > stall_s:
            raise MalformedResponse(f"the stream stalled for {stall_s:g} s")
    return partial.to_response()


def read_body(chunks: Iterable[bytes], partial: PartialResponse, stall_s: float, now: Callable[[], float]) -> ChatResponse:
    """Read a response from one JSON body. Blank bytes, which some services send while the model works, do not count as progress."""
    body, last = bytearray(), now()
    for chunk in chunks:
        body += chunk
        if chunk.strip():
            last = now()
        elif now() - last > stall_s:
            raise MalformedResponse(f"the response stalled for {stall_s:g} s")
        if len(body) > BODY_BYTES:
            raise MalformedResponse(f"the response is larger than {BODY_BYTES} bytes")
    event = parse_object(bytes(body))
    partial.add_event(event)
    if not event.get("choices"):
        raise MalformedResponse("the response has no choices")
    partial.is_done = True
    return partial.to_response()


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The complete lines of a stream; an empty line for a chunk without a line end. An unfinished last line is dropped."""
    rest, size = b"", 0
    for chunk in chunks:
        size += len(chunk)
        if size > BODY_BYTES:
            raise MalformedResponse(f"the response is larger than {BODY_BYTES} bytes")
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines or [b""]


def parse_object(data: bytes) -> dict[str, object]:
    """Parse a JSON object; MalformedResponse for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedResponse(f"the response is not JSON: {summarize(data[:80].decode('utf-8', 'replace'))}") from error
    if not isinstance(value, dict):
        raise MalformedResponse(f"the response is not a JSON object: {summarize(value)}")
    return value


def parse_usage(table: dict[str, object]) -> TokenCounts:
    """The token counts that the service reports; an invalid count is unknown."""
    details = table.get("prompt_tokens_details")
    cached_tokens = details.get("cached_tokens") if isinstance(details, dict) else None
    return TokenCounts(
        parse_token_count(table.get("prompt_tokens")), parse_token_count(table.get("completion_tokens")), parse_token_count(cached_tokens)
    )


def parse_token_count(value: object) -> int | None:
    """A non-negative integer, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def message_text(value: object) -> str:
    """The text of a message: a string, or a list of parts with text."""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def summarize(value: object) -> str:
    """A value, or the message in an error object, on one line of at most 200 characters."""
    return " ".join(str(value.get("message", value) if isinstance(value, dict) else value).split())[:200]
