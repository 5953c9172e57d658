"""What every policy owes the loop, whoever wrote it."""

import shutil

import pytest
from engine_parts import attempt, task

from evokernel.core.plugins import accepts_setting, make_plugin, plugin_names
from evokernel.core.records import Context, ContextRef, Stage, State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import seeds

POLICIES = plugin_names("policy")
STEPS = 6


@pytest.fixture(params=POLICIES)
def policy(request):
    settings = {key: value for key, value in (("seed", 7), ("budget", STEPS)) if accepts_setting("policy", request.param, key)}
    return lambda: make_plugin("policy", request.param, **settings)


def open_bank(path, run="r"):
    bank = Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run=run)
    bank.add(seeds("cpp"))
    return bank


def play(policy, bank, recorded=()):
    """A small run over two tasks; recorded attempts are learned again instead of made again."""
    known = {made.id: made for made in recorded}
    history = {name: [] for name in ("relu", "gelu")}
    contexts = {}
    for round in range(STEPS):
        states = [State(task=task(name), attempts=tuple(history[name]), round=round) for name in history]
        chosen = [known.get(state.next_id) or policy.choose(state, bank) for state in states]
        for name, state, context in zip(history, states, chosen, strict=True):
            if isinstance(context, Context):
                contexts[state.next_id] = context
                context = made_from(name, round, context)
            policy.learn(state, context, bank)
            bank.add(distill(state.task, context, state.attempts))
            history[name].append(context)
    return [made for name in history for made in history[name]], contexts


def made_from(name, round, context):
    feasible = (round + len(name)) % 3 != 0
    return attempt(round, name, feasible, context.stage, latency=50.0 - 5 * round).model_copy(
        update={
            "start": context.start and context.start.id,
            "shown": tuple(ContextRef(id=shown.item.id, role=shown.role, q=shown.q) for shown in context.items),
            "reward": -1.0 if not feasible else 1.0 if context.stage is Stage.DRAFT else 0.1,
        }
    )


def test_contexts_are_well_formed(policy, tmp_path):
    with open_bank(tmp_path / "bank.db") as bank:
        attempts, contexts = play(policy(), bank)
        mine = {made.id: made for made in attempts}
        assert len(contexts) == 2 * STEPS
        for id, context in contexts.items():
            shown = [entry.item for entry in context.items]
            assert len({item.id for item in shown}) == len(shown), "nothing is shown twice"
            assert bank.get([item.id for item in shown]) == shown, "what is shown is in memory"
            assert all(entry.q is None for entry in context.items if entry.role == "api"), "api knowledge is not valued"
            assert (context.stage is Stage.REFINE) == (context.start is not None), "a refinement has a start point"
            if context.start:
                assert context.start.task == mine[id].task
                assert context.start.outcome.feasible


def test_equal_runs_are_equal(policy, tmp_path):
    runs = []
    for name in "ab":
        with open_bank(tmp_path / name) as bank:
            runs.append(play(policy(), bank))
    assert runs[0] == runs[1]


def test_a_resumed_run_is_the_straight_one(policy, tmp_path):
    with open_bank(tmp_path / "a.db") as bank:
        straight, _ = play(policy(), bank)
    order = sorted(straight, key=lambda made: (made.round, made.task == "t/gelu"))
    with open_bank(tmp_path / "a.db", run="stranger") as bank:
        bank.update("t/relu/0", Stage.DRAFT, {made.trace: -1.0 for made in straight}, 0.9)
    for stopped_after in (1, 5, 8):
        shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
        with open_bank(tmp_path / "b.db") as bank:
            resumed, _ = play(policy(), bank, order[:stopped_after])
        assert resumed == straight, stopped_after


def test_an_empty_memory_is_enough(policy, tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        context = policy().choose(State(task=task("relu")), bank)
    assert (context.stage, context.start, context.items) == (Stage.DRAFT, None, ())
