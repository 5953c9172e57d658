"""Value policy: its choices, and the laws of its values."""

from collections import Counter
from random import Random

import pytest
from engine_parts import make_attempt, make_task
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Outcome, Profile, Stage
from evokernel.core.state import State
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import Selector, retrieve_nearest
from evokernel.policies.value import VALUE_SCOPES, RewardNormalizer, ValuePolicy

HASH = make_plugin("embedder", "hash", dim=256)
REWARDS = st.lists(st.floats(-1, 1), max_size=60)


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", HASH, backend="cpp", run="r") as bank:
        yield bank


def card(id, kind="practice", text="tip", **more):
    return MemoryItem(id=id, kind=kind, backend="cpp", title=id, text=text, **more)


def add_attempt(bank, name, n, family="activation", feasible=True, latency=10.0, start=None, run="r", code="", bottleneck=""):
    """Return an attempt after adding its memory items, as the loop does."""
    attempt = make_attempt(n, name, feasible, Stage.REFINE if start else Stage.DRAFT, run, latency)
    more = {"start_point": start}
    if code:
        more["candidate"] = attempt.candidate.model_copy(update={"files": {"kernel.cpp": code}})
    if feasible:
        profile = Profile(bottleneck=bottleneck, summary="") if bottleneck else None
        more["outcome"] = attempt.outcome.model_copy(update={"profile": profile, "baseline_us": {"eager": (20.0,) * 3}})
    attempt = attempt.model_copy(update=more)
    bank.add(distill(make_task(name, family), attempt))
    return attempt


def state(name, *attempts, round=None, family="activation"):
    return State(task=make_task(name, family), attempts=attempts, round=len(attempts) if round is None else round)


def shown_ids(context, *roles):
    return [s.item.id for s in context.items if not roles or s.role in roles]


# --- drafting ---------------------------------------------------------------------------------------------------------------


def test_empty_memory_gives_an_empty_draft(bank):
    context = ValuePolicy().choose(state("relu"), bank)
    assert (context.stage, context.start_point, context.items) == (Stage.DRAFT, None, ())


def test_draft_shows_experiences_and_traces_of_other_tasks(bank):
    bank.add([card("cpp/tip")])
    own = [add_attempt(bank, "relu", n, feasible=False) for n in range(3)]
    add_attempt(bank, "gelu", 0)
    context = ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", *own), bank)
    assert sorted(shown_ids(context)) == ["r:t/gelu/0", "r:t/gelu/0/note"]
    assert {s.item.id: s.role for s in context.items} == {"r:t/gelu/0": "trace", "r:t/gelu/0/note": "experience"}
    assert all(s.q == 0.0 for s in context.items)


def test_draft_shows_an_earlier_run_on_the_same_task(bank):
    add_attempt(bank, "relu", 0, run="before")
    assert "before:t/relu/0" in shown_ids(ValuePolicy().choose(state("relu"), bank))


def test_value_ranks_the_pool_and_ties_go_to_similarity(bank):
    bank.add([card(f"e{n}", "experience", key=" ".join(["relu"] * (9 - n) + ["other", "words"] * n)) for n in range(8)])
    query = state("relu")
    nearest = [hit.item.id for hit in bank.search(query.task.source, 8)]
    policy = ValuePolicy(top_n=3, pool_factor=2, epsilon=0, epsilon_end=0)
    assert shown_ids(policy.choose(query, bank)) == nearest[:3]
    bank.update("t/x/0", Stage.DRAFT, {nearest[5]: 1.0, nearest[0]: -1.0, nearest[7]: 1.0}, 0.3)
    # the best valued of the K = 6 nearest first, the seventh is out of reach, the bad one comes last
    assert shown_ids(policy.choose(query, bank)) == [nearest[5], nearest[1], nearest[2]]
    assert policy.choose(query, bank).items[0].q == pytest.approx(0.3)
    wider = ValuePolicy(top_n=3, pool_factor=4, epsilon=0, epsilon_end=0)
    assert shown_ids(wider.choose(query, bank)) == [nearest[5], nearest[7], nearest[1]]


def test_each_stage_has_separate_values(bank):
    bank.add([card("a", "experience", key="relu relu"), card("b", "experience", key="other words")])
    bank.update("t/x/0", Stage.REFINE, {"b": 1.0}, 0.3)
    policy = ValuePolicy(top_n=1, epsilon=0, epsilon_end=0)
    assert shown_ids(policy.choose(state("relu"), bank)) == ["a"]
    bank.update("t/x/0", Stage.DRAFT, {"b": 1.0}, 0.3)
    assert shown_ids(policy.choose(state("relu"), bank)) == ["b"]


def test_task_with_many_attempts_does_not_fill_the_pool(bank):
    for n in range(30):
        add_attempt(bank, "gelu", n, feasible=n % 3 == 0, latency=100.0 - n)
    add_attempt(bank, "sum", 0, family="reduction")
    context = ValuePolicy(top_n=6, pool_factor=2, epsilon=0, epsilon_end=0).choose(state("relu"), bank)
    assert sum(id.startswith("r:t/gelu/") for id in shown_ids(context)) <= 6
    policy = ValuePolicy(top_n=2, pool_factor=2, epsilon=0, epsilon_end=0, diversity_penalty=0)
    assert shown_ids(policy.choose(state("relu"), bank)) == ["r:t/gelu/27", "r:t/gelu/27/note"]  # represented by its fastest kernel


def test_value_ranks_the_pool_but_does_not_select_it(bank):
    """An old kernel with a high value does not push newer, faster kernels out of the pool."""
    for n in range(5):
        add_attempt(bank, "gelu", n, latency=100.0 - 10 * n)
    bank.update("t/x/0", Stage.DRAFT, {"r:t/gelu/0": 1.0, "r:t/gelu/3": 0.5}, 0.3)
    narrow, wide = (ValuePolicy(top_n=n, pool_factor=1, epsilon=0, epsilon_end=0) for n in (4, 10))
    assert shown_ids(narrow.choose(state("relu"), bank)) == ["r:t/gelu/3", "r:t/gelu/4", "r:t/gelu/4/note", "r:t/gelu/3/note"]
    assert shown_ids(wide.choose(state("relu"), bank))[:3] == ["r:t/gelu/0", "r:t/gelu/3", "r:t/gelu/4"]


def test_api_cards_are_static_named_in_code_or_similar(bank):
    cards = [
        card("cpp/abi", "api", "arguments", always_include=True),
        card("cpp/exp", "api", "cost of functions", apis=("std::exp", "expf")),
        card("cpp/simd", "api", "loops", apis=("#pragma omp simd",)),
        card("cpp/relu", "api", "relu relu relu x"),
        card("cpp/far", "api", "entirely different matters"),
    ]
    bank.add(cards)
    add_attempt(bank, "gelu", 0, code="#pragma omp simd\nfor (;;) y = myexpf(x);")
    policy = ValuePolicy(api_cards=2, epsilon=0, epsilon_end=0)
    context = policy.choose(state("relu"), bank)
    assert shown_ids(context, "api") == ["cpp/abi", "cpp/simd", "cpp/relu"]  # expf is only part of another word in the code
    assert all(s.q is None for s in context.items if s.role == "api")
    broken = make_attempt(0, "relu", feasible=False).model_copy(update={"candidate": context_code("std::exp(x)")})
    assert "cpp/exp" in shown_ids(ValuePolicy(api_cards=3).choose(state("relu", broken), bank), "api")
    assert shown_ids(ValuePolicy(api_cards=0).choose(state("relu"), bank), "api") == ["cpp/abi"]
    assert shown_ids(ValuePolicy(api_cards=1).choose(state("relu"), bank), "api") == ["cpp/abi", "cpp/simd"]


def test_cards_on_the_family_of_the_task_come_first(bank):
    close = [card(f"cpp/close{n}", text="relu relu x") for n in range(8)]
    bank.add([*close, card("cpp/far", text="entirely different", family="activation"), card("cpp/no", text="also far", family="loss")])
    bank.add([card("cpp/api-close", "api", "relu relu x"), card("cpp/api-far", "api", "different", family="activation")])
    policy = ValuePolicy(api_cards=1, part_cards=0, epsilon=0, epsilon_end=0)
    assert shown_ids(policy.choose(state("relu"), bank), "api") == ["cpp/api-far"]
    context = policy.choose(state("relu", add_attempt(bank, "relu", 0)), bank)
    assert shown_ids(context, "practice") == ["cpp/far"]
    assert "cpp/no" not in shown_ids(context)


def test_large_bank_still_returns_newest_items_and_other_tasks(bank):
    for name in ("relu", "gelu"):
        bank.add(
            [item for n in range(700) for item in distill(make_task(name), make_attempt(n, name, True, Stage.DRAFT, "old", 2000.0 - n))]
        )
    for pool_factor, tasks in ((2, {"t/relu", "t/gelu"}), (60, {"t/relu", "t/gelu"})):
        pool = retrieve_nearest(state("relu"), bank, 4 * pool_factor, ("experience", "trace"), 4)
        assert pool[0].id == "old:t/relu/699"
        assert {item.task for item in pool} == tasks


def context_code(text):
    return make_attempt(0).candidate.model_copy(update={"files": {"kernel.cpp": text}})


# --- refining ---------------------------------------------------------------------------------------------------------------


def test_refinement_context_has_every_role(bank):
    bank.add([card("cpp/tip"), card("cpp/memory", bottleneck="memory"), card("cpp/abi", "api")])
    first = add_attempt(bank, "relu", 0, latency=30.0, bottleneck="memory")
    second = add_attempt(bank, "relu", 1, latency=20.0, start=first.id)
    third = add_attempt(bank, "relu", 2, feasible=False, start=second.id)
    add_attempt(bank, "gelu", 0, latency=5.0)
    add_attempt(bank, "gelu", 1, latency=1.0)
    bank.update("t/x/0", Stage.REFINE, {first.memory_id: 1.0}, 0.3)
    context = ValuePolicy(epsilon=0, epsilon_end=0, latency_weight=0, start_patience=0).choose(state("relu", first, second, third), bank)
    assert context.stage is Stage.REFINE
    assert context.start_point == first
    assert shown_ids(context, "start") == [first.memory_id]
    assert shown_ids(context, "child") == [second.memory_id]
    assert shown_ids(context, "practice") == ["cpp/tip"]
    assert shown_ids(context, "bottleneck") == ["cpp/memory"]
    assert shown_ids(context, "trace") == ["r:t/gelu/1"]
    assert len(shown_ids(context)) == len(set(shown_ids(context)))
    assert context.items[0].q == pytest.approx(0.3)


def test_fastest_kernel_is_refined_until_its_refinements_bring_nothing(bank):
    slow, fast = (add_attempt(bank, "relu", n, latency=latency) for n, latency in enumerate((30.0, 10.0)))
    bank.update("t/x/0", Stage.REFINE, {slow.memory_id: 3.0, fast.memory_id: -3.0}, 0.9)
    tried = [add_attempt(bank, "relu", n, feasible=False, start=fast.id) for n in (2, 3, 4)]
    policy = ValuePolicy(epsilon=1, epsilon_end=1)
    assert all(policy.choose(state("relu", slow, fast, *tried[:n]), bank).start_point == fast for n in range(3))
    assert ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", slow, fast, *tried), bank).start_point == slow
    assert ValuePolicy(epsilon=0, epsilon_end=0, start_patience=0).choose(state("relu", slow, fast), bank).start_point == slow


def test_start_point_is_chosen_by_value_and_ties_go_to_the_fastest(bank):
    attempts = [add_attempt(bank, "relu", n, latency=latency) for n, latency in enumerate((30.0, 10.0, 20.0))]
    policy = ValuePolicy(epsilon=0, epsilon_end=0, start_patience=0)
    assert policy.choose(state("relu", *attempts), bank).start_point == attempts[1]
    bank.update("t/x/0", Stage.REFINE, {attempts[2].memory_id: 1.0, attempts[1].memory_id: -1.5}, 0.3)
    assert policy.choose(state("relu", *attempts), bank).start_point == attempts[2]


def test_improved_slow_start_point_yields_to_its_faster_descendant(bank):
    slow = add_attempt(bank, "relu", 0, latency=1000.0)
    fast = add_attempt(bank, "relu", 1, latency=100.0, start=slow.id)
    bank.update(fast.id, Stage.REFINE, {slow.memory_id: 0.99}, 0.3)  # earned relative to the best kernel of that time: itself
    grown = state("relu", slow, fast)
    assert ValuePolicy(epsilon=0, epsilon_end=0, start_patience=0).choose(grown, bank).start_point == fast
    assert ValuePolicy(epsilon=0, epsilon_end=0, latency_weight=0, start_patience=0).choose(grown, bank).start_point == slow
    close = add_attempt(bank, "relu", 2, latency=105.0, start=slow.id)  # not far behind, and q something
    bank.update(close.id, Stage.REFINE, {close.memory_id: 0.99}, 0.3)
    assert ValuePolicy(epsilon=0, epsilon_end=0, start_patience=0).choose(state("relu", slow, fast, close), bank).start_point == close


def test_untimed_start_point_ranks_after_timed_ones(bank):
    untimed = make_attempt(0, "relu").model_copy(update={"outcome": Outcome(gates=make_attempt(0).outcome.gates)})
    bank.add(distill(make_task("relu"), untimed))
    timed = add_attempt(bank, "relu", 1, latency=100.0)
    bank.update("t/x/0", Stage.REFINE, {untimed.memory_id: 1.0}, 0.3)
    assert ValuePolicy(epsilon=0, epsilon_end=0, start_patience=0).choose(state("relu", untimed, timed), bank).start_point == timed


def test_child_without_code_is_shown_by_its_note(bank):
    first = add_attempt(bank, "relu", 0)
    empty = make_attempt(1, "relu", feasible=False, stage=Stage.REFINE).model_copy(
        update={"start_point": first.id, "candidate": first.candidate.model_copy(update={"files": {}})}
    )
    bank.add(distill(make_task("relu"), empty))
    assert shown_ids(ValuePolicy().choose(state("relu", first, empty), bank), "child") == [f"{empty.memory_id}/note"]


def test_untimed_start_point_without_profile_is_accepted(bank):
    attempt = make_attempt(0, "relu").model_copy(update={"outcome": Outcome(gates=make_attempt(0).outcome.gates)})
    bank.add(distill(make_task("relu"), attempt))
    context = ValuePolicy().choose(state("relu", attempt), bank)
    assert (context.stage, context.start_point) == (Stage.REFINE, attempt)


# --- randomness -------------------------------------------------------------------------------------------------------------


def test_equal_seeds_choose_equally_and_different_seeds_differ(bank):
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(16)])
    once = [shown_ids(ValuePolicy(seed=3, epsilon=1, epsilon_end=1).choose(state("relu"), bank)) for _ in range(2)]
    assert once[0] == once[1]
    other = {tuple(shown_ids(ValuePolicy(seed=seed, epsilon=1, epsilon_end=1).choose(state("relu"), bank))) for seed in range(5)}
    assert len(other) > 1


def test_choosing_has_no_side_effects(bank):
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(16)])
    policy = ValuePolicy()
    first = policy.choose(state("relu"), bank)
    policy.choose(state("gelu"), bank)
    assert policy.choose(state("relu"), bank) == first


def test_epsilon_greedy_explores_with_probability_epsilon():
    pool = [card(f"e{n}") for n in range(5)]
    q = {item.id: float(n) for n, item in enumerate(pool)}
    picks = Counter(Selector(lambda ids: q, Random(f"0/{n}"), 0.3).pick_items(pool, 1)[0].id for n in range(4000))
    # 0.7 greedy and 0.3 uniform over five: the best 0.76, every other 0.06; bounds of five standard deviations
    assert abs(picks["e4"] / 4000 - 0.76) < 5 * (0.76 * 0.24 / 4000) ** 0.5
    for n in range(4):
        assert abs(picks[f"e{n}"] / 4000 - 0.06) < 5 * (0.06 * 0.94 / 4000) ** 0.5


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.integers(0, 12), st.floats(0, 1), st.integers(0, 99))
def test_picks_are_distinct_items_of_the_pool(values, n, epsilon, seed):
    pool = [card(f"e{k}") for k in range(len(values))]
    q = {item.id: q for item, q in zip(pool, values, strict=True)}
    picks = Selector(lambda ids: q, Random(seed), epsilon).pick_items(pool, n)
    assert len(picks) == min(n, len(pool))
    assert len({item.id for item in picks}) == len(picks)
    greedy = Selector(lambda ids: q, Random(seed)).pick_items(pool, n)
    assert greedy == sorted(pool, key=lambda item: -q[item.id])[:n]  # a stable sort: ties stay in the pool's order


def test_epsilon_falls_over_the_budget():
    policy = ValuePolicy(epsilon=0.2, epsilon_end=0.05, budget=31)
    assert [round(policy.current_epsilon(n), 4) for n in (0, 15, 30, 99)] == [0.2, 0.125, 0.05, 0.05]
    assert ValuePolicy(epsilon=0.2, budget=1).current_epsilon(0) == 0.2


def test_pool_factor_follows_a_schedule():
    policy = ValuePolicy(pool_factor=[[20, 30], [0, 2]])
    assert [policy.current_pool_factor(round) for round in (0, 19, 20, 40)] == [2, 2, 30, 30]
    assert ValuePolicy(pool_factor=[[5, 3]]).current_pool_factor(0) == 3
    assert ValuePolicy(pool_factor=2.5).current_pool_factor(7) == 2.5


# --- learning ---------------------------------------------------------------------------------------------------------------


def attempt_showing(shown_ids, n=0, reward=1.0, start=None, name="relu"):
    return make_attempt(n, name, stage=Stage.REFINE if start else Stage.DRAFT).model_copy(
        update={"shown_items": tuple(ContextRef(id=id, role=role) for id, role in shown_ids), "reward": reward, "start_point": start}
    )


def test_all_shown_items_except_api_cards_learn(bank):
    policy = ValuePolicy(alpha=0.5, prior_visits=0)
    policy.learn(state("relu"), attempt_showing([("a", "trace"), ("b", "experience"), ("c", "api")]), bank)
    assert bank.values(["a", "b", "c"], Stage.DRAFT) == {"a": ItemValue(0.5, 1), "b": ItemValue(0.5, 1), "c": ItemValue()}
    first = make_attempt(0, "relu")
    policy.learn(state("relu", first), attempt_showing([("r:t/relu/0", "start"), ("d", "child")], 1, 0.5, start=first.id), bank)
    assert bank.values(["r:t/relu/0", "d", "a"], Stage.REFINE) == {
        "r:t/relu/0": ItemValue(0.25, 1),
        "d": ItemValue(0.25, 1),
        "a": ItemValue(),
    }


def test_start_point_learns_even_if_its_trace_was_not_shown(bank):
    ValuePolicy(alpha=0.5).learn(state("relu", make_attempt(0, "relu")), attempt_showing([], 1, 1.0, start="t/relu/0"), bank)
    assert bank.values(["r:t/relu/0"], Stage.REFINE)["r:t/relu/0"] == ItemValue(0.5, 1)


def test_prior_fades_as_if_values_had_started_at_q0(bank):
    policy = ValuePolicy(alpha=0.3, prior_visits=0, q0_draft=0.8)
    expected = 0.8
    for n, reward in enumerate((1.0, -1.0, 1.0)):
        assert policy.q_values(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)
        policy.learn(state("relu"), attempt_showing([("a", "trace")], n, reward), bank)
        expected += 0.3 * (reward - expected)
    assert policy.q_values(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)


def test_optimistic_prior_keeps_an_item_until_it_fails(bank):
    bank.add([card("a", "experience", key="relu relu"), card("b", "experience", key="other words")])
    bank.update("t/x/0", Stage.DRAFT, {"b": 1.0}, 0.3)
    optimistic, plain = (ValuePolicy(top_n=1, epsilon=0, epsilon_end=0, prior_visits=0, q0_draft=q0) for q0 in (1.0, 0.0))
    assert (shown_ids(optimistic.choose(state("relu"), bank)), shown_ids(plain.choose(state("relu"), bank))) == (["a"], ["b"])
    bank.update("t/x/1", Stage.DRAFT, {"a": -1.0}, 0.3)
    assert shown_ids(optimistic.choose(state("relu"), bank)) == ["b"]
    assert optimistic.q_values(["a"], Stage.REFINE, "", bank) == {"a": 0.0}


def test_family_values_shrink_towards_the_overall_value(bank):
    policy = ValuePolicy(alpha=1.0, prior_visits=0, value_scope="family", shrinkage_visits=2.0)
    policy.learn(state("relu", family="activation"), attempt_showing([("a", "trace")], 0, 1.0), bank)
    policy.learn(state("sum", family="reduction"), attempt_showing([("a", "trace")], 0, -1.0, name="sum"), bank)
    assert bank.values(["a"], Stage.DRAFT)["a"] == ItemValue(-1.0, 2)
    assert policy.q_values(["a"], Stage.DRAFT, "activation", bank)["a"] == pytest.approx((1 * 1.0 + 2 * -1.0) / 3)
    assert policy.q_values(["a"], Stage.DRAFT, "matmul", bank)["a"] == -1.0  # nothing learned there yet
    assert ValuePolicy().q_values(["a"], Stage.DRAFT, "activation", bank)["a"] == -1.0


@settings(max_examples=12, deadline=None)
@given(
    rewards=REWARDS,
    stages=st.lists(st.sampled_from(list(Stage)), min_size=60, max_size=60),
    alpha=st.floats(0.01, 1),
    q0=st.floats(-1, 1),
    value_scope=st.sampled_from(VALUE_SCOPES),
)
def test_relearning_a_journal_gives_equal_bounded_values(tmp_path_factory, rewards, stages, alpha, q0, value_scope):
    journal = [
        attempt_showing([(f"i{n % 4}", "trace"), ("all", "practice")], n, reward, start="t/relu/0" if stage is Stage.REFINE else None)
        for n, (reward, stage) in enumerate(zip(rewards, stages, strict=False))
    ]
    ids = ["i0", "i1", "i2", "i3", "all", "r:t/relu/0"]
    start = make_attempt(0, "relu")
    start = start.model_copy(update={"outcome": start.outcome.model_copy(update={"profile": Profile(bottleneck="memory", summary="")})})
    results = []
    folder = tmp_path_factory.mktemp("replay")
    for name in ("once.db", "again.db", "once.db"):  # another bank, then the first one again, as in a resumed run
        policy = ValuePolicy(alpha=alpha, q0_draft=q0, q0_refine=q0, value_scope=value_scope)
        with Bank.open(folder / name, HASH, backend="cpp", run="r") as bank:
            for attempt in journal:
                policy.learn(state("relu", start), attempt, bank)
            scope = "activation" if value_scope == "family" else "cause:memory"
            results.append([policy.q_values(ids, stage, scope, bank) for stage in Stage])
    assert results[0] == results[1] == results[2]
    drafting, refining = results[0]
    assert all(abs(q) <= 1 + 1e-9 for q in drafting.values())  # Lemma 1, R = 1
    assert all(abs(q) <= 3 + 1e-9 for q in refining.values())  # R = clip


@given(REWARDS, st.floats(0.001, 1), st.floats(-1, 1))
def test_q_stays_bounded_for_bounded_rewards(rewards, alpha, q0):
    value = ItemValue(q0)
    for reward in rewards:
        value = ledger.apply_update(value, reward, alpha)
        assert -1 - 1e-9 <= value.q <= 1 + 1e-9  # Lemma 1


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0.01, 1))
def test_constant_alpha_is_an_exponential_moving_average(rewards, alpha):
    value = ItemValue()
    for reward in rewards:
        value = ledger.apply_update(value, reward, alpha)
    weights = [alpha * (1 - alpha) ** k for k in range(len(rewards))]
    assert value.q == pytest.approx(sum(w * r for w, r in zip(weights, reversed(rewards), strict=True)), abs=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=20, max_size=200))
def test_alpha_one_over_n_gives_the_mean_reward(rewards):
    value = ItemValue()
    for n, reward in enumerate(rewards, start=1):  # the sum of 1/n diverges, that of its squares does not
        value = ledger.apply_update(value, reward, 1 / n)
    assert value.q == pytest.approx(sum(rewards) / len(rewards), abs=1e-9)


def test_infrastructure_failure_changes_no_values(bank):
    """Without an attempt there is no `learn`, so values and statistics stay unchanged."""
    policy = ValuePolicy(epsilon=1, epsilon_end=1)
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(8)])

    def lost_device():
        raise InfraError("device lost")

    for _ in range(5):
        context = policy.choose(state("relu"), bank)
        with pytest.raises(InfraError):
            lost_device()
        assert bank.values(shown_ids(context), Stage.DRAFT) == {id: ItemValue() for id in shown_ids(context)}
    assert policy.normalizers == {}


# --- PopArt -----------------------------------------------------------------------------------------------------------------


def test_rewards_are_raw_during_warmup():
    normalizer = RewardNormalizer(warmup=3, sigma_floor=0.1, clip=3.0)
    assert [normalizer.normalise(reward) for reward in (0.5, -1.0, 0.25)] == [0.5, -1.0, 0.25]
    assert normalizer.normalise(0.9) != 0.9


def test_equal_rewards_stay_finite_after_normalisation():
    normalizer = RewardNormalizer(warmup=2, sigma_floor=0.1, clip=3.0)
    out = [normalizer.normalise(0.3) for _ in range(20)]
    assert out[2:] == pytest.approx([0.0] * 18, abs=1e-9)
    assert normalizer.sigma == 0.1
    assert normalizer.normalise(0.31) == pytest.approx(0.1, rel=0.1)  # slightly above the others earns little


@given(st.lists(st.floats(-1, 1), max_size=100), st.integers(0, 10), st.floats(0.01, 1), st.floats(0.5, 5))
def test_normalised_rewards_are_bounded_by_clip(rewards, warmup, floor, clip):
    normalizer = RewardNormalizer(warmup, floor, clip)
    assert all(abs(normalizer.normalise(reward)) <= max(1.0, clip) for reward in rewards)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=100))
def test_running_statistics_equal_batch_statistics(rewards):
    normalizer = RewardNormalizer(0, 1e-6, 3.0)
    for reward in rewards:
        normalizer.normalise(reward)
    mean = sum(rewards) / len(rewards)
    assert normalizer.mean == pytest.approx(mean, abs=1e-9)
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    assert normalizer.sigma == pytest.approx(max(deviation, 1e-6), abs=1e-6)


def test_refinement_failures_enter_the_statistics_and_drafts_do_not(bank):
    policy = ValuePolicy(warmup=0)
    policy.learn(state("relu"), attempt_showing([], 0, 1.0), bank)
    assert policy.normalizers == {}
    for n, reward in enumerate((-1.0, 0.5)):
        policy.learn(state("relu", make_attempt(0, "relu")), attempt_showing([], n + 1, reward, start="t/relu/0"), bank)
    assert policy.normalizers["cpp"].mean == pytest.approx(-0.25)


# --- settings ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings_table",
    [
        {"alpha": 0},
        {"alpha": 1.1},
        {"epsilon": -0.1},
        {"epsilon_end": 2},
        {"value_scope": "task"},
        {"pool_factor": 0.5},
        {"pool_factor": []},
        {"pool_factor": [[1]]},
        {"pool_factor": "many"},
        {"top_n": -1},
        {"sigma_floor": 0},
        {"shrinkage_visits": 0},
        {"latency_weight": -1},
        {"start_patience": -1},
    ],
)
def test_invalid_settings_are_refused_in_one_line(settings_table):
    with pytest.raises(UserError) as error:
        make_plugin("policy", "value", **settings_table)
    assert next(iter(settings_table)) in str(error.value)
    assert "\n" not in str(error.value)
