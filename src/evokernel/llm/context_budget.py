"""How much a model reads and writes at once: what the settings say, else what a server on this machine says of itself."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from evokernel.llm.local_server import get
from evokernel.llm.settings import Endpoint

NEAR = ("localhost", "127.0.0.1", "::1")
NAMES = ("n_ctx", "max_model_len", "max_context_length", "context_length")
"""What llama.cpp, vLLM, LM Studio and others call it."""
REPLY_SHARE = 4
CAUTION = 0.8
"""Of the tokens there are, those to be filled by estimate: four characters a token is up to a fifth too few for code."""


class Room(NamedTuple):
    """What fits a context, in tokens."""

    prompt: int
    """By estimate."""
    reply: int


def room(context: int, max_tokens: int) -> Room:
    """A context shared out: what a reply may take, a quarter unless its bound is set, and the rest for the prompt."""
    reply = min(max_tokens or context // REPLY_SHARE, context // 2)
    return Room(int((context - reply) * CAUTION), reply)


def asked(endpoint: Endpoint, model: str) -> int:
    """The context a service tells; 0 when it does not. Only services on this machine are asked: others are known by their makers' word."""
    if endpoint.context:
        return endpoint.context
    if urlsplit(endpoint.base_url).hostname not in NEAR:
        return 0
    try:
        listed = get(f"{endpoint.base_url.rstrip('/')}/models", timeout_s=2.0).get("data")
    except (OSError, ValueError):
        return 0
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    mine = [entry for entry in entries if entry.get("id") == model] or (entries if len(entries) == 1 else [])
    for entry in mine:
        facts = {**entry, **(entry["meta"] if isinstance(entry.get("meta"), dict) else {})}
        for name in NAMES:
            if isinstance(facts.get(name), int) and facts[name] > 0:
                return int(facts[name])
    return 0
