"""Helpers for tests of banks: banks with a small history, and their values."""

import threading
from contextlib import contextmanager

import pytest
from engine_parts import make_attempt, make_task
from time_limits import wait_until

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.schema import open_or_create
from evokernel.memory.tables import write_transaction

HASH = make_plugin("embedder", "hash")


def open_bank(path, run):
    return Bank.open(path, HASH, backend="cpp", run=run)


def learn(bank, name, n, shown, start=None, feasible=True):
    """Do what the loop does with one attempt: update the values of its context and add its items."""
    attempt = make_attempt(n, name, run=bank.run, feasible=feasible).model_copy(update={"start_point": start})
    bank.update(attempt.id, Stage.REFINE if start else Stage.DRAFT, dict.fromkeys(shown, attempt.reward), 0.5)
    bank.add(distill(make_task(name), attempt))
    return attempt


def load_stage_values(path):
    """All values of a bank by item and stage."""
    with Bank.open_reader(path) as reader:
        return {(value.item, value.stage): ItemValue(value.q, value.visits) for value in reader.list_values(scope=None)}


def make_bank_with_history(path):
    """A run with two tasks. relu: attempt 0 cheats, 1 is refined from 0, 2 from 1, 3 is another draft. gelu: two drafts."""
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


def set_schema_version(path, version):
    """Make a bank look as if another evokernel had written it."""
    connection = open_or_create(path)
    with write_transaction(connection):
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(version),))
    connection.close()


def assert_error(error_class, action, *words):
    """Assert that the action raises an error of one line that contains these words; return the message."""
    with pytest.raises(error_class) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


@contextmanager
def release_when_refused(holder, caplog):
    """End the transaction of `holder` once another writer has been refused and says that it tries again."""

    def release():
        wait_until(lambda: "trying again" in caplog.text)
        holder.execute("ROLLBACK")

    thread = threading.Thread(target=release)
    thread.start()
    yield
    thread.join()
    holder.close()
