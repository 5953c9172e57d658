"""Shared by the tests of banks: a way to learn, and what was learned."""

from engine_parts import attempt, task

from evokernel.core.plugins import make
from evokernel.core.protocols import Value
from evokernel.core.records import Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill

HASH = make("embedder", "hash")


def open_bank(path, run):
    return Bank.open(path, HASH, backend="cpp", run=run)


def learn(bank, name, n, shown, start=None, feasible=True):
    made = attempt(n, name, run=bank.run, feasible=feasible).model_copy(update={"start": start})
    bank.update(made.id, Stage.REFINE if start else Stage.DRAFT, dict.fromkeys(shown, made.reward), 0.5)
    bank.add(distill(task(name), made))
    return made


def standings(path):
    with Bank.read(path) as archive:
        return {(s.item, s.stage): Value(s.q, s.visits) for s in archive.standings(scope=None)}
