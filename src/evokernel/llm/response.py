"""Reads one answer off the wire, streamed or whole, and notices when it stalls, breaks off or is no answer at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from evokernel.llm.cost_tracker import UNKNOWN, Tokens

BODY_BYTES = 16_000_000


class Answer(NamedTuple):
    """A whole answer."""

    text: str
    finish_reason: str
    used: Tokens


class Garbled(Exception):
    """What came is not a whole answer; asking again may help."""


@dataclass
class Partial:
    """An answer as it grows; `used` stays known when the rest never comes."""

    text: list[str] = field(default_factory=list)
    finish_reason: str = ""
    used: Tokens = UNKNOWN
    done: bool = False

    def take(self, event: dict[str, object]) -> None:
        """One event of a stream, or a whole body: text, reason to end, usage, whichever it has."""
        if isinstance(event.get("usage"), dict):
            self.used = usage(cast("dict[str, object]", event["usage"]))
        if event.get("error"):
            raise Garbled(f"the service reported an error in its answer: {short(event['error'])}")
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        part = choices[0].get("delta") or choices[0].get("message") or {}
        if not isinstance(part, dict):
            raise Garbled("the answer has a message of an unknown form")
        self.text.append(content(part.get("content")) or content(part.get("refusal")))
        self.finish_reason = str(choices[0].get("finish_reason") or self.finish_reason)

    def answer(self) -> Answer:
        """The finished answer; Garbled when it never said that it was finished."""
        if not (self.finish_reason or (self.done and self.text)):
            raise Garbled("the answer broke off")
        return Answer("".join(self.text), self.finish_reason, self.used)


def read_stream(chunks: Iterable[bytes], partial: Partial, stall_s: float, now: Callable[[], float]) -> Answer:
    """An answer from server-sent events. Comments and blank lines do not count as news: they keep a dead connection open."""
    last = now()
    for line in lines(chunks):
        if line.startswith(b"data:"):
            last = now()
            data = line[5:].strip()
            if data == b"[DONE]":
                partial.done = True
                break
            partial.take(event(data))
        elif now() - last > stall_s:
            raise Garbled(f"the stream stalled for {stall_s:g} s")
    return partial.answer()


def read_whole(chunks: Iterable[bytes], partial: Partial, stall_s: float, now: Callable[[], float]) -> Answer:
    """An answer from one JSON body. Blank bytes, which some services send while the model works, do not count as news."""
    body, last = bytearray(), now()
    for chunk in chunks:
        body += chunk
        if chunk.strip():
            last = now()
        elif now() - last > stall_s:
            raise Garbled(f"the answer stalled for {stall_s:g} s")
        if len(body) > BODY_BYTES:
            raise Garbled(f"the answer is larger than {BODY_BYTES} bytes")
    whole = event(bytes(body))
    partial.take(whole)
    if not whole.get("choices"):
        raise Garbled("the answer has no choices in it")
    partial.done = True
    return partial.answer()


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a stream as they become whole, an empty one where bytes came but no line end; an unfinished last line is left out."""
    rest, size = b"", 0
    for chunk in chunks:
        size += len(chunk)
        if size > BODY_BYTES:
            raise Garbled(f"the answer is larger than {BODY_BYTES} bytes")
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole or [b""]


def event(data: bytes) -> dict[str, object]:
    """A JSON object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"the answer is not JSON: {short(data[:80].decode('utf-8', 'replace'))}") from error
    if not isinstance(found, dict):
        raise Garbled(f"the answer is not a JSON object: {short(found)}")
    return found


def usage(table: dict[str, object]) -> Tokens:
    """The service's own count; anything that is no count is unknown."""
    details = table.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Tokens(count(table.get("prompt_tokens")), count(table.get("completion_tokens")), count(cached))


def count(value: object) -> int | None:
    """A number of tokens, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def content(value: object) -> str:
    """The text of a message: a string, or a list of parts with text in them."""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def short(what: object) -> str:
    """Anything on one short line."""
    return " ".join(str(what.get("message", what) if isinstance(what, dict) else what).split())[:200]
