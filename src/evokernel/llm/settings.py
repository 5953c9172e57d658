"""The settings of a chat client: model, service, limits, budgets; and the providers that can be named instead of an address."""

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

DEFAULT_KEY_VARIABLE = "EVOKERNEL_API_KEY"
LOCAL_MODEL = "local"


class ChatSettings(Record):
    """Settings of a chat client. A limit of 0 means no limit."""

    model: str = Field(min_length=1)
    """`local` is the model that `evokernel model` serves on this machine."""
    provider: str = ""
    """A name in providers.toml; `openai` if base_url is empty too."""
    base_url: str = ""
    """The address of any OpenAI-compatible service, instead of the provider's."""
    api_key_env: str = ""
    """Environment variable with the API key. The default is the provider's, or EVOKERNEL_API_KEY for a base_url without a provider."""
    temperature: float | None = None
    """None leaves it to the service, because some models accept only their default."""
    max_tokens: int = Field(default=0, ge=0)
    """Limit for a reply, including reasoning tokens."""
    timeout_s: float = Field(default=600, gt=0)
    """Seconds without new data from the service."""
    retries: int = Field(default=5, ge=0)
    concurrency: int = Field(default=8, ge=1)
    rpm: float = Field(default=0, ge=0)
    """Requests per minute."""
    tpm: float = Field(default=0, ge=0)
    """Tokens per minute."""
    stream: bool = True
    budget_usd: float = Field(default=0, ge=0)
    """Budget in USD; refused if the price is not known. The run stops cleanly when it is spent."""
    budget_tokens: int = Field(default=0, ge=0)
    """Budget in input and output tokens."""
    price_in: float | None = Field(default=None, ge=0)
    """USD per million input tokens; replaces the published price."""
    price_out: float | None = Field(default=None, ge=0)
    """USD per million output tokens; replaces the published price."""
    seed: int = 0
    send_seed: bool = False
    """Send a seed with each request, different for each attempt; only some services support it."""
    extra: str = ""
    """Additional fields of the request as JSON: `{"reasoning_effort": "high"}`."""

    @property
    def is_local(self) -> bool:
        """Whether the settings name our own server on this machine."""
        return self.model == LOCAL_MODEL and not (self.provider or self.base_url)

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        """Raise ValueError unless both prices or none are set and `extra` is a JSON object."""
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out must be set together")
        self.extra_fields()
        return self

    def extra_fields(self) -> dict[str, object]:
        """`extra` as a dictionary."""
        try:
            fields = json.loads(self.extra or "{}")
        except json.JSONDecodeError as error:
            raise ValueError(f'extra must be a JSON object such as {{"top_p": 0.9}} ({error})') from error
        if not isinstance(fields, dict):
            raise ValueError('extra must be a JSON object such as {"top_p": 0.9}')
        return fields


class Endpoint(NamedTuple):
    """The address of a service and its properties."""

    base_url: str
    key_variable: str
    """The environment variable with the API key; empty if the service needs none."""
    price_provider: str = ""
    """The provider's name in genai-prices; empty if its prices are unknown."""
    max_tokens_field: str = "max_tokens"
    """The request field that limits the tokens of a reply."""
    usage_on_request: bool = True
    """Whether a stream reports its usage only on request."""
    other_urls: tuple[str, ...] = ()
    """Further addresses of the same model, each of which answers one request at a time."""
    context_length: int = 0
    """Tokens that prompt and reply may have together; 0 if unknown."""

    def read_api_key(self) -> str:
        """The API key from the environment; `none` for services that need none, because the protocol requires a value."""
        if not self.key_variable:
            return "none"
        if api_key := os.environ.get(self.key_variable, "").strip():
            return api_key
        if self.key_variable == DEFAULT_KEY_VARIABLE:
            return "none"
        raise UserError(
            f"no key in the environment variable {self.key_variable}: set it (export {self.key_variable}=...), "
            "name another with generator.api_key_env, or choose a local service with generator.provider or generator.base_url "
            "(generator.model=local needs neither key nor network)"
        )


def parse_settings(**fields: object) -> ChatSettings:
    """Settings from plain values; UserError of one line for the first wrong value."""
    try:
        return ChatSettings.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if name == "model" and not fields.get("model"):
            raise UserError("no model is set: set generator.model to the service's name for it") from error
        setting = f"generator.{name} = {first['input']!r}: " if name else "generator: "
        raise UserError(setting + first["msg"].removeprefix("Value error, ")) from error


def resolve_endpoint(settings: ChatSettings) -> Endpoint:
    """The provider's endpoint, with the overrides in the settings."""
    if settings.is_local:
        return Endpoint("http://127.0.0.1", "")
    providers = load_providers()
    name = settings.provider or ("" if settings.base_url else "openai")
    if name and name not in providers:
        names = ", ".join(providers)
        raise UserError(f"no provider '{name}'{did_you_mean(name, list(providers))}; there are: {names}; or set generator.base_url")
    endpoint = providers[name] if name else Endpoint(settings.base_url, DEFAULT_KEY_VARIABLE)
    # Published prices apply to the provider's own address only: another service may use the same model name.
    price_provider = "" if settings.base_url else endpoint.price_provider
    return endpoint._replace(
        base_url=settings.base_url or endpoint.base_url,
        key_variable=settings.api_key_env or endpoint.key_variable,
        price_provider=price_provider,
    )


def load_providers() -> dict[str, Endpoint]:
    """All providers by name, from providers.toml."""
    tables = tomllib.loads((Path(__file__).parent / "providers.toml").read_text(encoding="utf-8"))
    return {name: Endpoint(**{"key_variable": "", **table}) for name, table in tables.items()}
