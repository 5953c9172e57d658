"""Banks of both kinds, in files and on a server, and one with a little history."""

from itertools import count

import pytest
from bank_parts import with_history

from evokernel.core.bank_uri import parse_location

NUMBERS = count()


@pytest.fixture(params=["file", "server"])
def banks(request, tmp_path):
    """Where a bank of a name is, for this test alone."""
    if request.param == "file":
        return lambda name="bank": tmp_path / f"{name}.db"
    server, number = request.getfixturevalue("postgres"), next(NUMBERS)
    return lambda name="bank": parse_location(server.url(f"t{number}_{name}"))


@pytest.fixture
def path(banks):
    return with_history(banks())


@pytest.fixture
def file(tmp_path):
    return with_history(tmp_path / "bank.db")
