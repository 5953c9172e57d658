"""Contract of every policy."""

import shutil

import pytest
from engine_parts import list_policies, make_attempt, make_task, open_seeded_bank

from evokernel.core.plugins import accepts_setting, make_plugin
from evokernel.core.records import Context, Stage
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill

STEPS = 6


@pytest.fixture(params=list_policies(), ids=lambda settings: "-".join(settings.values()))
def policy(request):
    name, memory = request.param["policy"], request.param.get("memory")
    known_settings = {"seed": 7, "budget": STEPS, "memory": memory}
    settings = {key: value for key, value in known_settings.items() if accepts_setting("policy", name, key)}
    return lambda: make_plugin("policy", name, **settings)


def open_bank(path, run="r"):
    return open_seeded_bank(path, run)


def run_policy(policy, bank, recorded=()):
    """Run a policy on two tasks; recorded attempts are replayed instead of being made again."""
    journal = {attempt.id: attempt for attempt in recorded}
    history = {name: [] for name in ("relu", "gelu")}
    contexts = {}
    for round in range(STEPS):
        states = [State(task=make_task(name), attempts=tuple(history[name]), round=round) for name in history]
        choices = [journal.get(state.next_id) or policy.choose(state, bank) for state in states]
        for name, state, context in zip(history, states, choices, strict=True):
            if isinstance(context, Context):
                contexts[state.next_id] = context
                context = attempt_from_context(name, round, context)
            policy.learn(state, context, bank)
            bank.add(distill(state.task, context, state.attempts))
            history[name].append(context)
    return [attempt for name in history for attempt in history[name]], contexts


def attempt_from_context(name, round, context):
    feasible = (round + len(name)) % 3 != 0
    return make_attempt(round, name, feasible, context.stage, latency=50.0 - 5 * round).model_copy(
        update={
            "start_point": context.start_point and context.start_point.id,
            "shown_items": tuple(entry.ref for entry in context.items),
            "reward": -1.0 if not feasible else 1.0 if context.stage is Stage.DRAFT else 0.1,
        }
    )


def test_contexts_are_well_formed(policy, tmp_path):
    with open_bank(tmp_path / "bank.db") as bank:
        attempts, contexts = run_policy(policy(), bank)
        attempts_by_id = {attempt.id: attempt for attempt in attempts}
        assert len(contexts) == 2 * STEPS
        for id, context in contexts.items():
            assert all(not entry.item.text and not entry.item.code for entry in context.items if entry.role == "nothing")
            items = [entry.item for entry in context.items if entry.role != "nothing"]
            assert len({item.id for item in items}) == len(items), "no item is shown twice"
            assert bank.get([item.id for item in items]) == items, "every shown item is in memory"
            assert all(entry.q is None for entry in context.items if entry.role == "api"), "api cards have no value"
            assert (context.stage is Stage.REFINE) == (context.start_point is not None), "a refinement has a start point"
            if context.start_point:
                assert context.start_point.task == attempts_by_id[id].task
                assert context.start_point.outcome.feasible


def test_strategy_without_memory_shows_nothing_of_other_tasks(tmp_path):
    for name in {settings["policy"] for settings in list_policies() if "memory" in settings}:
        with open_bank(tmp_path / f"{name}.db") as bank:
            attempts, contexts = run_policy(make_plugin("policy", name, memory="none", seed=7, budget=STEPS), bank)
        own = {attempt.memory_id: attempt.task for attempt in attempts}
        tasks = {attempt.id: attempt.task for attempt in attempts}
        shown = [(id, entry) for id, context in contexts.items() for entry in context.items]
        assert all(own.get(entry.item.id.removesuffix("/note")) == tasks[id] for id, entry in shown if entry.role != "api"), name


def test_equal_runs_are_equal(policy, tmp_path):
    runs = []
    for name in "ab":
        with open_bank(tmp_path / name) as bank:
            runs.append(run_policy(policy(), bank))
    assert runs[0] == runs[1]


def test_resumed_run_equals_straight_run(policy, tmp_path):
    with open_bank(tmp_path / "a.db") as bank:
        straight, _ = run_policy(policy(), bank)
    order = sorted(straight, key=lambda attempt: (attempt.round, attempt.task == "t/gelu"))
    with open_bank(tmp_path / "a.db", run="stranger") as bank:
        bank.update("t/relu/0", Stage.DRAFT, {attempt.memory_id: -1.0 for attempt in straight}, 0.9)
    for stopped_after in (1, 5, 8):
        shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
        with open_bank(tmp_path / "b.db") as bank:
            resumed, _ = run_policy(policy(), bank, order[:stopped_after])
        assert resumed == straight, stopped_after


def test_policy_works_with_empty_memory(policy, tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        context = policy().choose(State(task=make_task("relu")), bank)
    assert (context.stage, context.start_point, context.items) == (Stage.DRAFT, None, ())
