"""Fixtures: banks in files and on a server, and banks with a small history."""

from itertools import count

import pytest
from bank_parts import make_bank_with_history

from evokernel.core.bank_uri import parse_location

NUMBERS = count()


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.toolchain)])
def banks(request, tmp_path):
    """A function from names to bank locations that only this test uses."""
    if request.param == "file":
        return lambda name="bank": tmp_path / f"{name}.db"
    server, number = request.getfixturevalue("postgres"), next(NUMBERS)
    return lambda name="bank": parse_location(server.url(f"t{number}_{name}"))


@pytest.fixture
def path(banks):
    return make_bank_with_history(banks())


@pytest.fixture
def file(tmp_path):
    return make_bank_with_history(tmp_path / "bank.db")
