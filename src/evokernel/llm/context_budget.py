"""How many tokens fit a prompt and its reply: from the settings, or from a server on this machine that reports its context length."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from evokernel.llm.local_server import get_json
from evokernel.llm.settings import Endpoint

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
CONTEXT_FIELDS = ("n_ctx", "max_model_len", "max_context_length", "context_length")
"""The names of the context length in llama.cpp, vLLM, LM Studio and others."""
REPLY_SHARE = 4
FILL_SHARE = 0.8
"""Share of the prompt's tokens to fill by estimate: at four characters a token, the estimate is up to a fifth too low for code."""


class TokenBudget(NamedTuple):
    """The tokens of a context that a prompt and its reply may use."""

    prompt_tokens: int
    """Estimated tokens, with a margin for the error of the estimate."""
    reply_tokens: int


def split_context(context: int, max_tokens: int) -> TokenBudget:
    """Divide a context: `max_tokens`, or a quarter if it is 0, for the reply, and the rest for the prompt."""
    reply_tokens = min(max_tokens or context // REPLY_SHARE, context // 2)
    return TokenBudget(int((context - reply_tokens) * FILL_SHARE), reply_tokens)


def query_context_length(endpoint: Endpoint, model: str) -> int:
    """The context length that a service on this machine reports; 0 if it reports none, and for services elsewhere."""
    if endpoint.context_length:
        return endpoint.context_length
    if urlsplit(endpoint.base_url).hostname not in LOCAL_HOSTS:
        return 0
    try:
        data = get_json(f"{endpoint.base_url.rstrip('/')}/models", timeout_s=2.0).get("data")
    except (OSError, ValueError):
        return 0
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    matches = [entry for entry in entries if entry.get("id") == model] or (entries if len(entries) == 1 else [])
    for entry in matches:
        fields = {**entry, **(entry["meta"] if isinstance(entry.get("meta"), dict) else {})}
        for name in CONTEXT_FIELDS:
            if isinstance(fields.get(name), int) and fields[name] > 0:
                return int(fields[name])
    return 0
