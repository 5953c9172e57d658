"""A bank with a little history."""

import pytest
from bank_parts import learn, open_bank
from test_memory_bank import item


@pytest.fixture
def path(tmp_path):
    """relu: 0 (cheats), 1 refined from 0, 2 refined from 1, 3 a draft of its own; gelu learns beside it."""
    path = tmp_path / "bank.db"
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        learn(bank, "relu", 1, ["cpp/tip", "a:t/relu/0"], start="t/relu/0")
        learn(bank, "relu", 2, ["a:t/relu/1"], start="t/relu/1", feasible=False)
        learn(bank, "relu", 3, ["a:t/gelu/0"])
        learn(bank, "gelu", 1, ["cpp/tip", "a:t/relu/0"])
    return path
