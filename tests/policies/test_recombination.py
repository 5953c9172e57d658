"""Recombination: which second kernel a strategy names, and how contexts, journals and templates use it."""

from collections import Counter
from random import Random

import pytest
from engine_parts import make_attempt, make_task
from population_parts import make_kernel, make_state

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import ContextRef, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.hill_climb import HillClimb
from evokernel.policies.islands import Islands
from evokernel.policies.map_elites import MapElites
from evokernel.policies.recombination import find_part_kernels, pick_partner
from evokernel.policies.value_model import load_observations

FAST, DIFFERENT = make_kernel(0), make_kernel(1, 30.0, "compute", "acc = _mm256_fmadd_ps(a, b, acc) + c * d;")


@pytest.fixture
def bank(tmp_path):
    """Both kernels of the task, a kernel of the same family, and one of another."""
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        for attempt in (FAST, DIFFERENT):
            bank.add(distill(make_task("relu"), attempt))
        bank.add(distill(make_task("gelu"), make_attempt(0, "gelu")))
        bank.add(distill(make_task("gelu"), make_attempt(1, "gelu", feasible=False)))
        bank.add(distill(make_task("matmul", "matmul"), make_attempt(0, "matmul")))
        yield bank


def partners(context):
    return [entry.item.id for entry in context.items if entry.role == "partner"]


def test_partner_is_another_kernel_of_the_task_or_one_that_shares_a_part(bank):
    state = make_state(FAST, DIFFERENT)
    assert [kernel.id for kernel in find_part_kernels(state, bank)] == ["r:t/gelu/0"], "correct, of a family of the task"

    def draws(shares_parts):
        picks = (pick_partner(state, bank, FAST, [FAST, DIFFERENT], shares_parts, Random(n)) for n in range(40))
        return set(Counter(pick.id for pick in picks))

    assert draws(shares_parts=True) == {DIFFERENT.memory_id, "r:t/gelu/0"}
    assert draws(shares_parts=False) == {DIFFERENT.memory_id}
    assert pick_partner(state, bank, FAST, [FAST], False, Random(0)) is None


@pytest.mark.parametrize("strategy", [MapElites, Islands])
def test_strategies_recombine_at_the_rate_of_the_setting(bank, strategy):
    settings = {"islands": 1} if strategy is Islands else {"draft_rate": 0.0}
    state = make_state(FAST, DIFFERENT)

    def share(rate):
        contexts = [strategy(memory="none", recombination=rate, seed=seed, **settings).choose(state, bank) for seed in range(20)]
        assert all(partners(context) != [context.start_point.memory_id] for context in contexts)
        assert all(len({entry.item.id for entry in context.items}) == len(context.items) for context in contexts), "shown once"
        return sum(len(partners(context)) for context in contexts)

    assert (share(0.0), share(1.0)) == (0, 20)
    assert 4 < share(0.5) < 16


def test_partner_of_another_task_needs_memory(bank):
    state = make_state(FAST)
    with_memory = MapElites(memory="similarity", recombination=1.0, draft_rate=0.0).choose(state, bank)
    assert partners(with_memory) == ["r:t/gelu/0"]
    assert partners(MapElites(memory="none", recombination=1.0, draft_rate=0.0).choose(state, bank)) == []


def test_value_of_the_partner_learns_from_the_attempt(bank):
    state, strategy = make_state(FAST, DIFFERENT), MapElites(memory="value", recombination=1.0, draft_rate=0.0)
    context = strategy.choose(state, bank)
    (partner,) = [entry for entry in context.items if entry.role == "partner"]
    assert partner.q == 0.0, "with learned values, the partner has one"
    shown = tuple(ContextRef(id=entry.item.id, role=entry.role, q=entry.q) for entry in context.items)
    child = make_kernel(2, 5.0, start=0).model_copy(update={"shown_items": shown, "reward": 0.6})
    strategy.learn(state, child, bank)
    assert bank.values([partner.item.id], Stage.REFINE)[partner.item.id].q > 0
    trace = distill(state.task, child, state.attempts)[0]
    assert partner.item.id in trace.shown_items


def test_contextual_memory_learns_from_an_attempt_with_a_partner(bank):
    state = make_state(FAST, DIFFERENT)
    shown = (ContextRef(id=FAST.memory_id, role="start"), ContextRef(id=DIFFERENT.memory_id, role="partner"))
    child = make_kernel(2, 5.0, start=0).model_copy(update={"shown_items": shown, "reward": 0.6})
    MapElites(memory="contextual").learn(state, child, bank)
    assert len(load_observations(bank, "cpp", Stage.REFINE)) == 1, "the strategy chose the partner, so no features are missing"


def test_other_strategies_name_no_partner(bank):
    assert partners(HillClimb(memory="none").choose(make_state(FAST, DIFFERENT), bank)) == []


@pytest.mark.parametrize("name", ["map_elites", "islands"])
def test_wrong_rate_is_refused(name):
    with pytest.raises(UserError, match=r"recombination = 1.5 must lie between 0 and 1"):
        make_plugin("policy", name, recombination=1.5)
