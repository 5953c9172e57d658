"""What a chat client is told: which model, where, how hard to try, how much to spend."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Record

OWN_KEY = "EVOKERNEL_API_KEY"
LOCAL = "local"


class ChatSettings(Record):
    """A limit of 0 means none."""

    model: str = Field(min_length=1)
    """`local` is the one that `evokernel model` serves on this machine."""
    provider: str = ""
    """A name in providers.toml; `openai` when there is no base_url either."""
    base_url: str = ""
    """Any OpenAI-compatible service, instead of the provider's own address."""
    api_key_env: str = ""
    """Environment variable with the key; the provider's own by default, EVOKERNEL_API_KEY for a bare base_url."""
    temperature: float | None = None
    """None leaves it to the service, as some models accept no other."""
    max_tokens: int = Field(default=0, ge=0)
    """Bounds a reply, thoughts included."""
    timeout_s: float = Field(default=600, gt=0)
    """Seconds without anything new from the service."""
    retries: int = Field(default=5, ge=0)
    concurrency: int = Field(default=8, ge=1)
    rpm: float = Field(default=0, ge=0)
    """Requests per minute."""
    tpm: float = Field(default=0, ge=0)
    """Tokens per minute."""
    stream: bool = True
    budget_usd: float = Field(default=0, ge=0)
    """Money, where the price is known; the run stops cleanly once it is spent."""
    budget_tokens: int = Field(default=0, ge=0)
    price_in: float | None = Field(default=None, ge=0)
    """USD per million tokens read; replaces the published price."""
    price_out: float | None = Field(default=None, ge=0)
    seed: int = 0
    send_seed: bool = False
    """Sends a seed with each request, another for each attempt; only some services know it."""
    extra: str = ""
    """More fields of the request, as JSON: `{"reasoning_effort": "high"}`."""

    @property
    def is_local(self) -> bool:
        """Whether our own server on this machine is meant."""
        return self.model == LOCAL and not (self.provider or self.base_url)

    @model_validator(mode="after")
    def whole(self) -> Self:
        """Two settings only make sense together, one must be JSON."""
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out must be set together")
        self.extra_fields()
        return self

    def extra_fields(self) -> dict[str, object]:
        """`extra` as the fields it stands for."""
        try:
            fields = json.loads(self.extra or "{}")
        except json.JSONDecodeError as error:
            raise ValueError(f'extra must be a JSON object such as {{"top_p": 0.9}} ({error})') from error
        if not isinstance(fields, dict):
            raise ValueError('extra must be a JSON object such as {"top_p": 0.9}')
        return fields


class Endpoint(NamedTuple):
    """Where requests go, and what is known about the service there."""

    base_url: str
    key: str
    """The environment variable with the key; empty when the service wants none."""
    prices: str = ""
    limit: str = "max_tokens"
    usage_on_request: bool = True
    others: tuple[str, ...] = ()
    """Further addresses of the same model, each of which answers one request at a time."""
    context: int = 0
    """Tokens that prompt and reply may have together; 0 where nobody said."""

    def secret(self) -> str:
        """The key itself; services that want none get a word in its place, because the protocol has a field for it."""
        if not self.key:
            return "none"
        if secret := os.environ.get(self.key, "").strip():
            return secret
        if self.key == OWN_KEY:
            return "none"
        raise UserError(
            f"no key in the environment variable {self.key}: set it (export {self.key}=...), "
            "name another with generator.api_key_env, or choose a local service with generator.provider or generator.base_url "
            "(generator.model=local needs neither key nor network)"
        )


def checked(**fields: object) -> ChatSettings:
    """Settings from plain values, or one line that says which is wrong."""
    try:
        return ChatSettings.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if where == "model" and not fields.get("model"):
            raise UserError("no model chosen: set generator.model to the name the service knows it by") from error
        what = f"generator.{where} = {first['input']!r}: " if where else "generator: "
        raise UserError(what + first["msg"].removeprefix("Value error, ")) from error


def endpoint(settings: ChatSettings) -> Endpoint:
    """The provider's entry, changed by what the settings say."""
    if settings.is_local:
        return Endpoint("http://127.0.0.1", "")
    known = providers()
    name = settings.provider or ("" if settings.base_url else "openai")
    if name and name not in known:
        there = ", ".join(known)
        raise UserError(f"no provider '{name}'{did_you_mean(name, list(known))}; there are: {there}; or set generator.base_url")
    found = known[name] if name else Endpoint(settings.base_url, OWN_KEY)
    # A published price holds for the provider's own address, not for whatever answers elsewhere under the model's name.
    prices = "" if settings.base_url else found.prices
    return found._replace(base_url=settings.base_url or found.base_url, key=settings.api_key_env or found.key, prices=prices)


def providers() -> dict[str, Endpoint]:
    """Every named provider."""
    tables = tomllib.loads((Path(__file__).parent / "providers.toml").read_text(encoding="utf-8"))
    return {name: Endpoint(**{"key": "", **table}) for name, table in tables.items()}
