"""Banks of both kinds, in files and on a server, and one with a little history."""

from itertools import count

import postgres_server
import pytest
from bank_parts import learn, open_bank
from test_memory_bank import item

from evokernel.core.address import place

NUMBERS = count()


@pytest.fixture(scope="session")
def postgres():
    """A server for all tests of this process."""
    if why := postgres_server.missing():
        pytest.skip(why)
    server = postgres_server.Postgres()
    yield server
    server.close()


@pytest.fixture(params=["file", "server"])
def banks(request, tmp_path):
    """Where a bank of a name is, for this test alone."""
    if request.param == "file":
        return lambda name="bank": tmp_path / f"{name}.db"
    server, number = request.getfixturevalue("postgres"), next(NUMBERS)
    return lambda name="bank": place(server.url(f"t{number}_{name}"))


def with_history(path):
    """relu: 0 (cheats), 1 refined from 0, 2 refined from 1, 3 a draft of its own; gelu learns beside it."""
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        learn(bank, "relu", 1, ["cpp/tip", "a:t/relu/0"], start="t/relu/0")
        learn(bank, "relu", 2, ["a:t/relu/1"], start="t/relu/1", feasible=False)
        learn(bank, "relu", 3, ["a:t/gelu/0"])
        learn(bank, "gelu", 1, ["cpp/tip", "a:t/relu/0"])
    return path


@pytest.fixture
def path(banks):
    return with_history(banks())


@pytest.fixture
def file(tmp_path):
    return with_history(tmp_path / "bank.db")
