"""Opens banks, files and servers, and says what goes wrong with them in words that name the fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import UserError
from evokernel.memory import sqlite_file
from evokernel.memory.tables import Connection


@contextmanager
def trouble(path: BankLocation) -> Iterator[None]:
    """Says in one line what is wrong with the bank at `path` and how to go on."""
    with server().trouble(path) if isinstance(path, ServerUrl) else sqlite_file.trouble(path):
        yield


def connect(path: BankLocation) -> Connection:
    """The bank at `path` for reading and writing, made when there is none."""
    found: Connection = server().connect(path) if isinstance(path, ServerUrl) else sqlite_file.connect(path)
    return found


def connect_to_read(path: BankLocation) -> Connection:
    """An existing bank, never changed."""
    found: Connection = server().connect_to_read(path) if isinstance(path, ServerUrl) else sqlite_file.connect_to_read(path)
    return found


def connect_to_change(path: BankLocation) -> Connection:
    """An existing bank, for reading and writing."""
    connect_to_read(path).close()
    return connect(path)


def server() -> ModuleType:
    """The part that needs a client library."""
    try:
        from evokernel.memory import postgres
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("evokernel"):
            raise
        raise UserError("a memory bank on a server needs psycopg: pip install 'evokernel[postgres]', or use --memory FILE") from error
    return postgres


def elsewhere() -> str:
    """The way out of a bank that cannot be used."""
    return sqlite_file.elsewhere()
