"""Open memory banks, in files or on servers, and translate database errors into messages that name the fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import UserError
from evokernel.memory import sqlite_file
from evokernel.memory.tables import Connection


@contextmanager
def translate_db_errors(path: BankLocation) -> Iterator[None]:
    """Translate database errors of the bank at `path` into a UserError or InfraError of one line that names the fix."""
    with import_postgres().translate_db_errors(path) if isinstance(path, ServerUrl) else sqlite_file.translate_db_errors(path):
        yield


def open_or_create(path: BankLocation) -> Connection:
    """Open the bank at `path` for reading and writing; create it if it does not exist."""
    connection: Connection = import_postgres().open_or_create(path) if isinstance(path, ServerUrl) else sqlite_file.open_or_create(path)
    return connection


def connect_read_only(path: BankLocation) -> Connection:
    """Open an existing bank for reading only."""
    connection: Connection = (
        import_postgres().connect_read_only(path) if isinstance(path, ServerUrl) else sqlite_file.connect_read_only(path)
    )
    return connection


def connect_existing(path: BankLocation) -> Connection:
    """Open an existing bank for reading and writing."""
    connect_read_only(path).close()
    return open_or_create(path)


def import_postgres() -> ModuleType:
    """The module for banks on servers, which needs the psycopg library."""
    try:
        from evokernel.memory import postgres
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("evokernel"):
            raise
        raise UserError("a memory bank on a server needs psycopg: pip install 'evokernel[postgres]', or use --memory FILE") from error
    return postgres


def other_bank_hint() -> str:
    """The fix to suggest for a bank that cannot be used."""
    return sqlite_file.other_bank_hint()
