"""Tenants and their tokens: a TOML file with a hash of each token, and the limits of each tenant.

A token has 192 random bits, so that a plain SHA-256 of it cannot be reversed by guessing. The token itself is shown once and never stored.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import threading
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, ValidationError

from evokernel.app.http_server import new_token
from evokernel.core.errors import UserError
from evokernel.core.records import Record

log = logging.getLogger(__name__)
RELOAD_S = 1.0
"""How often the token file is looked at: a token that was removed works for at most this long."""
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Tenant(Record):
    """Someone who may use the service, with limits."""

    name: str
    token_sha256: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...] = ()
    requests_per_minute: int = Field(default=600, ge=1)
    max_queued: int = Field(default=256, ge=1)
    """Verifications that wait or run at a time."""
    max_batch: int = Field(default=256, ge=1)
    max_request_bytes: int = Field(default=4 << 20, ge=1)
    max_kernel_bytes: int = Field(default=256 << 10, ge=1)
    max_streams: int = Field(default=32, ge=1)
    """Requests that wait for a result or follow events at a time."""
    max_timeout_s: float = Field(default=120, gt=0)
    """Largest `timeout_s` that a request may ask for."""
    can_read_metrics: bool = False


LOCAL = Tenant(name="local", requests_per_minute=60_000, max_queued=100_000, max_streams=256, can_read_metrics=True)
"""The only tenant of a server without a token file, which only this machine can reach."""


def hash_token(token: str) -> str:
    """Hash a token as the file stores it."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tenants(path: Path) -> dict[str, Tenant]:
    """Read the token file. Raises UserError with one line that names the mistake."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no token file {path}. Make one with: evokernel serve token NAME --tokens {path}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the token file {path}: {error}") from error
    tenants = table.get("tenants", {})
    if set(table) - {"tenants"} or not isinstance(tenants, Mapping):
        raise UserError(f"{path}: write one table [tenants.NAME] for each tenant")
    return {name: parse_tenant(path, name, fields) for name, fields in tenants.items()}


def parse_tenant(path: Path, name: str, fields: Any) -> Tenant:
    """Check one table of the token file."""
    if not NAME.fullmatch(name) or not isinstance(fields, Mapping):
        raise UserError(f"{path}: '{name}' is not a tenant; names have lower-case letters, digits, - and _")
    try:
        return Tenant.model_validate({**fields, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: tenants.{name}.{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from error


def add_token(path: Path, name: str) -> str:
    """Make a token for a tenant, write its hash to the file, and return it. Earlier tokens of the tenant stay valid."""
    if not NAME.fullmatch(name):
        raise UserError(f"'{name}' is not a name for a tenant. Use lower-case letters, digits, - and _.")
    tenants = read_tenants(path) if path.exists() else {}
    token = f"ek_{new_token()}"
    tenant = tenants.get(name, Tenant(name=name))
    tenants[name] = tenant.model_copy(update={"token_sha256": (*tenant.token_sha256, hash_token(token))})
    write_tenants(path, tenants)
    return token


def write_tenants(path: Path, tenants: Mapping[str, Tenant]) -> None:
    """Replace the token file at once; only its owner can read it."""
    tables = {
        name: tenant.model_dump(mode="json", exclude={"name"}, exclude_defaults=True) | {"token_sha256": list(tenant.token_sha256)}
        for name, tenant in tenants.items()
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            tomli_w.dump({"tenants": tables}, file)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}. Choose another file with --tokens.") from error


class TokenFile:
    """The tenants of a token file, read again when the file changes. A file that becomes unreadable keeps its last content."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.Lock()
        self.tenants = read_tenants(path)
        self.changed_at, self.checked_at = self.read_time(), time.monotonic()

    def read_time(self) -> int:
        """When the file changed; 0 if it does not exist."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def find_tenant(self, token: str) -> Tenant | None:
        """The tenant of a token. Compares with every hash in constant time, so that the time says nothing about the token."""
        self.reload()
        digest, match = hash_token(token), None
        for tenant in self.tenants.values():
            for known in tenant.token_sha256:
                if hmac.compare_digest(digest, known):
                    match = tenant
        return match

    def reload(self) -> None:
        """Read the file again if it changed."""
        with self.lock:
            if time.monotonic() - self.checked_at < RELOAD_S:
                return
            self.checked_at, changed_at = time.monotonic(), self.read_time()
            if changed_at == self.changed_at or not changed_at:
                return
            try:
                self.tenants = read_tenants(self.path)
            except UserError as error:
                log.error("the token file is not read again: %s", error)
            self.changed_at = changed_at
