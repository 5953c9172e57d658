"""Shared by the tests of banks: a way to learn, and what was learned."""

import pytest
from engine_parts import attempt, task

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.schema import connect
from evokernel.memory.tables import VERSION, transaction

HASH = make_plugin("embedder", "hash")


def open_bank(path, run):
    return Bank.open(path, HASH, backend="cpp", run=run)


def learn(bank, name, n, shown, start=None, feasible=True):
    made = attempt(n, name, run=bank.run, feasible=feasible).model_copy(update={"start": start})
    bank.update(made.id, Stage.REFINE if start else Stage.DRAFT, dict.fromkeys(shown, made.reward), 0.5)
    bank.add(distill(task(name), made))
    return made


def standings(path):
    with Bank.read(path) as archive:
        return {(s.item, s.stage): ItemValue(s.q, s.visits) for s in archive.standings(scope=None)}


def with_history(path):
    """relu: 0 (cheats), 1 refined from 0, 2 refined from 1, 3 a draft of its own; gelu learns beside it."""
    with open_bank(path, "a") as bank:
        cards = (("cpp/tip", "practice"), ("cpp/abi", "api"))
        bank.add(MemoryItem(id=id, kind=kind, backend="cpp", title=id, text=id) for id, kind in cards)
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        learn(bank, "relu", 1, ["cpp/tip", "a:t/relu/0"], start="t/relu/0")
        learn(bank, "relu", 2, ["a:t/relu/1"], start="t/relu/1", feasible=False)
        learn(bank, "relu", 3, ["a:t/gelu/0"])
        learn(bank, "gelu", 1, ["cpp/tip", "a:t/relu/0"])
    return path


UNDO = {  # what takes a bank back to the version before
    5: (
        "ALTER TABLE items DROP COLUMN archived",
        "ALTER TABLE runs DROP COLUMN consolidations",
        "DROP TABLE merged",
        "DROP TABLE consolidations",
        "DROP INDEX items_by_task",
    ),
    4: (
        "DROP INDEX items_by_candidate",
        "DROP INDEX items_by_code",
        *(f"ALTER TABLE items DROP COLUMN {name}" for name in ("candidate", "code", "bottleneck", "feasible", "latency_us")),
    ),
    3: ("ALTER TABLE items DROP COLUMN pack", "DROP TABLE origins", "DROP TABLE packs"),
    2: ("ALTER TABLE runs DROP COLUMN folder",),
}


def as_before(path, version):
    """Makes a bank what an older evokernel left."""
    connection = connect(path)
    with transaction(connection):
        for newer in range(VERSION, version, -1):
            for statement in UNDO[newer]:
                connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(version),))
    connection.close()


def refusal(kind, action, *words):
    """Its one line, with these words in it."""
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message
