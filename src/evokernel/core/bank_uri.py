"""Location of a memory bank: a file, or the URL of a PostgreSQL server. Passwords stay in this process and are never written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from evokernel.core.errors import UserError

SCHEMES = ("postgresql", "postgres")
DEFAULT_SCHEMA = "evokernel"
"""Schema of a bank's tables unless the URL has `?schema=`."""
SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret")
LOOKS_LIKE_URL = re.compile(r"([A-Za-z][\w+.-]+):/")  # one slash is left where a URL went through a Path; a drive has one letter
URL_FRAGMENT = re.compile(r"://|\bpostgres(?:ql)?:/|\bpassword\s*=")
"""Text that looks like part of a URL in an invalid location; it may contain a password, so messages never quote it."""
INVALID_PORT = re.compile(r":(?!\d*(?:[/,]|$))")
SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_secrets: dict[str, dict[str, str]] = {}
"""Secrets removed from each URL; reconnecting needs them again."""


@dataclass(frozen=True)
class ServerUrl:
    """URL of a bank on a server, without its password."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """Short name for display: host and database, without scheme and login."""
        where = self.text.partition("?")[0].partition("://")[2].rpartition("@")[2]
        return where if self.schema == DEFAULT_SCHEMA else f"{where}/{self.schema}"

    @property
    def schema(self) -> str:
        """Database schema of the bank's tables."""
        return dict(parse_qsl(self.text.partition("?")[2])).get("schema", DEFAULT_SCHEMA)

    @property
    def connection_url(self) -> str:
        """URL for the client library, without password and without `schema`."""
        bare, _, query = self.text.partition("?")
        return join_query(bare, [(name, value) for name, value in parse_qsl(query) if name != "schema"])

    @property
    def secrets(self) -> dict[str, str]:
        """Passwords for this URL that this process holds in memory."""
        return dict(_secrets.get(self.text, {}))

    def redact(self, message: str) -> str:
        """Replace the secrets in a message by `***`."""
        for secret in self.secrets.values():
            message = message.replace(secret, "***").replace(quote(secret, safe=""), "***") if secret else message
        return message


BankLocation = Path | ServerUrl


def parse_location(value: str | Path | ServerUrl) -> BankLocation:
    """Parse a bank's location: a path or a PostgreSQL URL. Raises UserError for anything else."""
    if isinstance(value, ServerUrl):
        return value
    scheme = LOOKS_LIKE_URL.match(str(value))
    if not scheme and URL_FRAGMENT.search(str(value)):
        raise UserError("invalid location of a memory bank. Give a file, or a URL that begins with postgresql://, without quotes.")
    if not scheme:
        return Path(value)
    if scheme.group(1) not in SCHEMES:
        raise UserError(f"a memory bank cannot be at {scheme.group(1)}://…. Give a file or a postgresql:// URL with --memory.")
    return ServerUrl(strip_secrets(str(value)))


def strip_secrets(value: str) -> str:
    """Return a URL without its secrets, and keep the secrets in memory for this process."""
    scheme, _, rest = value.partition(":/")
    bare, _, query = rest.removeprefix("/").partition("?")
    login, at, where = bare.rpartition("@")
    user, _, password = login.partition(":")
    parameters = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # libpq does not decode '+' as a space
    stray = any("@" in part for part in query.split("&") if not part.startswith("user="))
    if INVALID_PORT.search(re.sub(r"\[.*?\]", "", where)) or stray:
        raise UserError("invalid server URL. Write '?', '/' and '@' in a password as %3F, %2F and %40, or use PGPASSWORD.")
    secrets = {name: text for name, text in parameters if name in SECRET_PARAMETERS and text}
    if password:
        secrets["password"] = unquote(password)
    schema = dict(parameters).get("schema", DEFAULT_SCHEMA)
    if not SCHEMA_NAME.fullmatch(schema):
        raise UserError(f"'{schema}' is not a valid schema name. Use lower-case letters, digits and '_'; it must not begin with pg_.")
    text = join_query(f"{scheme}://{user}{at if user else ''}{where}", [pair for pair in parameters if pair[0] not in SECRET_PARAMETERS])
    if secrets:
        _secrets[text] = secrets
    return text


def join_query(bare: str, parameters: list[tuple[str, str]]) -> str:
    """Append query parameters to a URL."""
    return f"{bare}?{urlencode(parameters, quote_via=quote)}" if parameters else bare


def redact_password(value: str) -> str:
    """Return a bank's location without its password, as settings store it."""
    location = parse_location(value)
    return str(location) if isinstance(location, ServerUrl) else value


def resolve_path(value: str) -> str:
    """Return a bank's location with an absolute path, valid from any working folder."""
    location = parse_location(value)
    return str(location.expanduser().absolute()) if isinstance(location, Path) else str(location)
