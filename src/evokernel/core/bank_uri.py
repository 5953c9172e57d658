"""Where a memory bank is: a file, or a PostgreSQL server by its URL. Passwords stay in this process and are written nowhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from evokernel.core.errors import UserError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "evokernel"
"""Where a bank's tables are, unless `?schema=` names another place in the same database."""
SECRET = ("password", "sslpassword", "oauth_client_secret")
LOOKS_LIKE_URL = re.compile(r"([A-Za-z][\w+.-]+):/")  # one slash is left where a URL went through a Path; a drive has one letter
MISPLACED = re.compile(r"://|\bpostgres(?:ql)?:/|\bpassword\s*=")
"""In what is no URL of ours: whoever wrote it meant one, and it may hold a password."""
NO_PORT = re.compile(r":(?!\d*(?:[/,]|$))")
SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_secrets: dict[str, dict[str, str]] = {}
"""What was left out of each URL: it is asked for again when a connection is lost."""


@dataclass(frozen=True)
class ServerUrl:
    """A bank on a server; as text, without its password."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """For people, where its place in the world is known: without scheme and login."""
        where = self.text.partition("?")[0].partition("://")[2].rpartition("@")[2]
        return where if self.schema == SCHEMA else f"{where}/{self.schema}"

    @property
    def schema(self) -> str:
        return dict(parse_qsl(self.text.partition("?")[2])).get("schema", SCHEMA)

    @property
    def target(self) -> str:
        """What a client library is given, still without a password."""
        bare, _, query = self.text.partition("?")
        return join_query(bare, [(name, value) for name, value in parse_qsl(query) if name != "schema"])

    @property
    def secrets(self) -> dict[str, str]:
        """What this process was told and keeps to itself."""
        return dict(_secrets.get(self.text, {}))

    def hide(self, words: str) -> str:
        """A message without the password, in case somebody quotes it."""
        for secret in self.secrets.values():
            words = words.replace(secret, "***").replace(quote(secret, safe=""), "***") if secret else words
        return words


BankLocation = Path | ServerUrl


def parse_location(value: str | Path | ServerUrl) -> BankLocation:
    """Where that is; what cannot be a bank is refused."""
    if isinstance(value, ServerUrl):
        return value
    found = LOOKS_LIKE_URL.match(str(value))
    if not found and MISPLACED.search(str(value)):
        raise UserError("that is no place of a memory bank: name a file, or a URL that begins with postgresql://, without quotes around it")
    if not found:
        return Path(value)
    if found.group(1) not in SCHEMES:
        raise UserError(f"a memory bank is a file or postgresql://…, not {found.group(1)}://…: name one of these with --memory")
    return ServerUrl(without_secrets(str(value)))


def without_secrets(value: str) -> str:
    """A URL as it may be kept; its password is remembered here, for this process only."""
    scheme, _, rest = value.partition(":/")
    bare, _, query = rest.removeprefix("/").partition("?")
    login, at, where = bare.rpartition("@")
    user, _, password = login.partition(":")
    asked = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # as libpq reads it: a plus is a plus
    stray = any("@" in part for part in query.split("&") if not part.startswith("user="))
    if NO_PORT.search(re.sub(r"\[.*?\]", "", where)) or stray:
        raise UserError("that is no URL of a server: write '?', '/' and '@' in a password as %3F, %2F and %40, or use PGPASSWORD")
    secrets = {name: text for name, text in asked if name in SECRET and text}
    if password:
        secrets["password"] = unquote(password)
    schema = dict(asked).get("schema", SCHEMA)
    if not SCHEMA_NAME.fullmatch(schema):
        raise UserError(f"'{schema}' cannot be the schema of a memory bank: use small letters, digits and '_', not pg_ at its beginning")
    text = join_query(f"{scheme}://{user}{at if user else ''}{where}", [pair for pair in asked if pair[0] not in SECRET])
    if secrets:
        _secrets[text] = secrets
    return text


def join_query(bare: str, asked: list[tuple[str, str]]) -> str:
    """A URL with what it asks for."""
    return f"{bare}?{urlencode(asked, quote_via=quote)}" if asked else bare


def redact_password(value: str) -> str:
    """A bank's place as settings keep it."""
    found = parse_location(value)
    return str(found) if isinstance(found, ServerUrl) else value


def resolve_path(value: str) -> str:
    """The same place, from whatever folder it is read."""
    found = parse_location(value)
    return str(found.expanduser().absolute()) if isinstance(found, Path) else str(found)
