"""Contextual value: its choices of sets, what it learns, and how it explains them."""

import json
from random import Random

import pytest
import sample_run
from click.testing import CliRunner
from engine_parts import make_attempt, make_task
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.cli.memory import command as memory_command
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import ContextRef, MemoryItem, Opportunity, Outcome, Profile, Stage
from evokernel.core.state import State
from evokernel.memory import packs
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.pack_file import PackFilters
from evokernel.memory.revoke import revoke
from evokernel.policies.contextual import ContextualPolicy
from evokernel.policies.item_features import FEATURE_LABELS, ItemDescriber, describe_state, explain_choice
from evokernel.policies.similarity import SimilarityPolicy
from evokernel.policies.value_model import Observation, ValueModel, load_observations

HASH = make_plugin("embedder", "hash", dim=256)


def open_bank(path, run="r"):
    return Bank.open(path, HASH, backend="cpp", run=run)


@pytest.fixture
def bank(tmp_path):
    with open_bank(tmp_path / "bank.db") as bank:
        yield bank


def add_kernel(bank, name, family="activation", feasible=True, run="old", n=0):
    """Add the trace of an attempt, without its note; return its id."""
    attempt = make_attempt(n, name, feasible, run=run)
    bank.add(distill(make_task(name, family), attempt)[:1])
    return attempt.memory_id


def draft(policy, bank, name, is_correct, n=0, family="activation"):
    """Make one draft and learn from it; `is_correct` decides the success from the ids of the items shown."""
    state = State(task=make_task(name, family))
    context = policy.choose(state, bank)
    ids = {entry.item.id for entry in context.items}
    refs = tuple(entry.ref for entry in context.items)
    attempt = make_attempt(n, name, is_correct(ids), run=bank.run).model_copy(update={"shown_items": refs})
    policy.learn(state, attempt, bank)
    return attempt


# --- the model --------------------------------------------------------------------------------------------------------------


def synthetic_observations(count, weights, records, noise, seed=1):
    random = Random(seed)
    observations = []
    for _ in range(count):
        features = {"base": 1.0, **{name: round(random.uniform(0, 2), 4) for name in weights if name != "base"}}
        items = tuple(sorted(random.sample(sorted(records), random.randrange(5))))
        reward = sum(weights[name] * features[name] for name in weights) + sum(records[item] for item in items) + random.gauss(0, noise)
        observations.append(Observation(features, items, reward))
    return observations


def test_regression_recovers_planted_weights():
    weights = {"base": -0.2, "similarity": 0.4, "correct": -0.3, "length": 0.15, "value": 0.0}
    records = {f"item{n}": (-0.5 if n == 3 else 0.0) for n in range(12)}
    model = ValueModel(Stage.DRAFT, synthetic_observations(4000, weights, records, 0.3), records, record_visits=8)
    for name, weight in weights.items():
        assert model.weight(name) == pytest.approx(weight, abs=0.04), name
    for item, record in records.items():
        assert model.explain(item, {}).get("own_record", 0.0) == pytest.approx(record, abs=0.06), item


def test_uncertainty_shrinks_with_observations():
    def width(count):
        observations = synthetic_observations(count, {"base": 0.0, "similarity": 0.4}, dict.fromkeys("abcd", 0.0), 0.3)
        model = ValueModel(Stage.DRAFT, observations, "abcd", 8)
        return float(model.gains(model.draw(Random(0), 1.0, ["a"], 200), [{"similarity": 1.0}]).std())

    assert width(0) > 1.5 * width(100) > 3 * width(2500)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.sampled_from("abc")), max_size=30), st.sampled_from(list(Stage)))
def test_values_are_bounded(rows, stage):
    observations = [Observation({"base": 1.0, "similarity": x, "cause": 1 - x}, (item,), reward) for reward, x, item in rows]
    model = ValueModel(stage, observations, "abc", record_visits=0.01)
    for item in "abcd":
        assert abs(sum(model.explain(item, dict.fromkeys(FEATURE_LABELS, 1.0)).values())) <= 2.0 + 1e-3
        draws = model.draw(Random(1), 100.0, [item])
        assert abs(float(model.gains(draws, [dict.fromkeys(FEATURE_LABELS, 1.0)])[0, 0]) * model.scale) <= 2.0 + 1e-9


def test_refinement_rewards_are_normalised():
    def model_of(unit):
        rows = [Observation({"base": 1.0, "cause": float(n % 2)}, (), unit * (n % 2)) for n in range(60)]
        return ValueModel(Stage.REFINE, rows, (), 8)

    assert model_of(0.2).weight("cause") == pytest.approx(0.2 * model_of(1.0).weight("cause"), rel=1e-6)


# --- the choice -------------------------------------------------------------------------------------------------------------


def test_similar_item_that_always_fails_is_dropped_where_similarity_keeps_it(bank):
    trap = add_kernel(bank, "relu")
    for name in ("gelu", "tanh", "matmul", "softmax", "mean"):
        add_kernel(bank, name, family=name)
    policy = ContextualPolicy(seed=3)
    shown = [trap in {ref.id for ref in draft(policy, bank, f"relu{n}", lambda ids: trap not in ids).shown_items} for n in range(50)]
    assert shown[0]
    assert sum(shown) <= 10
    assert not any(shown[-20:])
    similar = [SimilarityPolicy().choose(State(task=make_task(f"relu{n}")), bank) for n in range(50)]
    assert all(trap in {entry.item.id for entry in context.items} for context in similar)


def test_what_features_predict_carries_over_to_an_item_that_was_never_shown(bank):
    failed = {add_kernel(bank, f"relu{n}", feasible=n % 2 == 0) for n in range(24)} - {f"old:t/relu{n}/0" for n in range(0, 24, 2)}
    policy = ContextualPolicy(seed=1)
    for n in range(60):
        draft(policy, bank, f"gelu{n}", lambda ids: not ids & failed)  # failed kernels mislead
    new_failed, new_correct = (add_kernel(bank, name, feasible=feasible, run="new") for name, feasible in (("elu1", False), ("elu2", True)))
    selector = policy.make_selector(State(task=make_task("elu")), bank, None)
    gains = {
        item.id: sum(selector.model.explain(item.id, selector.describer.describe(item, [])).values())
        for item in bank.get([new_failed, new_correct])
    }
    assert gains[new_correct] - gains[new_failed] > 0.3


def test_empty_set_is_chosen_if_every_item_hurts(bank):
    for n in range(6):
        add_kernel(bank, f"relu{n}")
    policy = ContextualPolicy()
    attempts = [draft(policy, bank, f"gelu{n}", lambda ids: not ids) for n in range(60)]
    assert any(attempts[0].shown_items)
    assert sum(not attempt.shown_items for attempt in attempts[-20:]) >= 18


def test_set_stops_where_the_next_item_repeats_what_is_shown(bank):
    for n in range(6):
        add_kernel(bank, "relu", n=n)
    add_kernel(bank, "matmul", family="matmul")
    state = State(task=make_task("fused", "matmul").model_copy(update={"families": ("matmul", "activation")}))
    context = ContextualPolicy(exploration_scale=0).choose(state, bank)
    assert {entry.item.family for entry in context.items} == {"matmul", "activation"}
    assert len(context.items) < 4


def test_refining_shows_a_card_for_the_cause_and_learns_that_it_does_not_help(bank):
    card = MemoryItem(id="cpp/tiles", kind="practice", backend="cpp", title="Tiles", text="Use `tile(x)`.", causes=("memory_traffic",))
    bank.add([card])
    profile = Profile(bottleneck="memory", summary="", opportunities=(Opportunity(cause="memory_traffic", gain_us=3.0),))
    start = make_attempt(0, "relu")
    start = start.model_copy(update={"outcome": start.outcome.model_copy(update={"profile": profile})})
    policy, state = ContextualPolicy(exploration_scale=0), State(task=make_task("relu"), attempts=(start,))
    roles = []
    for n in range(1, 12):
        context = policy.choose(state, bank)
        roles.append({entry.role for entry in context.items} & {"bottleneck", "nothing"})
        reward = -1.0 if "bottleneck" in roles[-1] else 0.3
        attempt = make_attempt(n, "relu", reward > 0, Stage.REFINE)
        refs = tuple(entry.ref for entry in context.items)
        policy.learn(state, attempt.model_copy(update={"start_point": start.id, "reward": reward, "shown_items": refs}), bank)
    assert roles[0] == {"bottleneck"}
    assert roles[-1] == {"nothing"}


def test_features_describe_task_and_item(bank):
    add_kernel(bank, "relu")
    kernel, failed = bank.get([add_kernel(bank, "relu", n=2), add_kernel(bank, "conv", "convolution", feasible=False)])
    state = State(task=make_task("relu"), attempts=(make_attempt(0, "relu", feasible=False),))
    describer = ItemDescriber(state, bank, None)
    alone, after = describer.describe(kernel, []), describer.describe(kernel, [kernel])
    assert alone["similarity"] == pytest.approx(1.0, abs=0.01)
    assert {"shown", "family", "new_part", "dtype", "correct", "late"} <= alone.keys()
    assert "repeated_task" not in alone
    assert (after["repeated_task"], after["repeated_outcome"], after["repeated_part"]) == (0.5, 0.5, 1.0)
    assert describer.describe(failed, [])["same_failure"] == 1.0
    assert describe_state(state, None) == {"base": 1.0, "attempts": 0.25, "parts": 0.25}
    assert alone.keys() | after.keys() <= FEATURE_LABELS.keys()


@pytest.mark.parametrize("wrong", [{"top_n": -1}, {"pool_factor": 0.5}, {"record_visits": 0}, {"exploration_scale": -1.0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        make_plugin("policy", "contextual", **wrong)


# --- the laws ---------------------------------------------------------------------------------------------------------------


def learn_history(path, run="a"):
    """Fill a bank with drafts of several tasks; return the attempts."""
    with open_bank(path, run) as bank:
        for name in ("relu", "gelu", "tanh"):
            add_kernel(bank, name)
        policy = ContextualPolicy(seed=5)
        attempts = []
        for n, name in enumerate(("elu", "silu", "mish", "selu")):
            attempt = draft(policy, bank, name, lambda ids, n=n: n % 2 == 0)
            bank.add(distill(make_task(name), attempt))
            attempts.append(attempt)
    return attempts


def observations_of(path, run):
    with open_bank(path, run) as bank:
        return load_observations(bank, "cpp", Stage.DRAFT)


def replay(path, attempts, run="a"):
    """Learn recorded attempts in a new bank."""
    with open_bank(path, run) as bank:
        for name in ("relu", "gelu", "tanh"):
            add_kernel(bank, name)
        for attempt in attempts:
            ContextualPolicy().learn(State(task=make_task(attempt.task.removeprefix("t/"))), attempt, bank)


def test_model_is_a_fold_of_the_journal_in_any_order(tmp_path):
    attempts = learn_history(tmp_path / "a.db")
    assert len(observations_of(tmp_path / "a.db", "later")) == 4
    for name, order in (("b.db", attempts), ("c.db", attempts[::-1]), ("d.db", [*attempts, *attempts])):
        replay(tmp_path / name, order)
        assert observations_of(tmp_path / name, "later") == observations_of(tmp_path / "a.db", "later"), name


def test_journal_keeps_the_features_exactly(tmp_path):
    attempts = learn_history(tmp_path / "a.db")
    assert any(ref.features for attempt in attempts for ref in attempt.shown_items)
    replay(tmp_path / "b.db", [type(attempt).model_validate_json(attempt.model_dump_json()) for attempt in attempts])
    assert observations_of(tmp_path / "b.db", "later") == observations_of(tmp_path / "a.db", "later")


def test_revocation_equals_never_having_learned(tmp_path):
    attempts = learn_history(tmp_path / "a.db")
    revoke(tmp_path / "a.db", "a:t/silu/0")
    replay(tmp_path / "b.db", [attempt for attempt in attempts if attempt.task != "t/silu"])
    assert len(observations_of(tmp_path / "a.db", "later")) == 3
    assert observations_of(tmp_path / "a.db", "later") == observations_of(tmp_path / "b.db", "later")


def test_packs_carry_the_model_without_held_out_tasks(tmp_path):
    learn_history(tmp_path / "a.db")
    for exclude, expected in (((), 4), (("t/mish",), 3)):
        packs.export_pack(tmp_path / "a.db", tmp_path / "pack.jsonl", PackFilters(backend="cpp", exclude=exclude))
        target = tmp_path / f"imported{expected}.db"
        packs.import_pack_file(target, tmp_path / "pack.jsonl", HASH)
        imported = observations_of(target, "new")
        assert len(imported) == expected
        assert set(map(repr, imported)) <= set(map(repr, observations_of(tmp_path / "a.db", "later")))


def test_attempts_of_other_policies_give_no_observation(bank):
    item = add_kernel(bank, "relu")
    attempt = make_attempt(0, "gelu").model_copy(update={"shown_items": (ContextRef(id=item, role="trace", q=0.0),)})
    ContextualPolicy().learn(State(task=make_task("gelu")), attempt, bank)
    assert load_observations(bank, "cpp", Stage.DRAFT) == []
    assert bank.values([item], Stage.DRAFT)[item].visits == 1


# --- the explanation --------------------------------------------------------------------------------------------------------


def test_reasons_add_up_to_the_value_and_read_in_plain_words(bank):
    add_kernel(bank, "relu")
    (entry,) = ContextualPolicy(exploration_scale=0).choose(State(task=make_task("relu")), bank).items
    assert sum(entry.reasons.values()) == pytest.approx(entry.q)
    assert "from a similar operator" in explain_choice(entry.reasons)
    assert explain_choice({"similarity": 0.1, "correct": -0.2, "length": 0.001}) == "-0.20 a correct kernel, +0.10 from a similar operator"


def test_command_explains_the_items_of_an_attempt(tmp_path):
    task = sample_run.make_task("relu")
    refs = (ContextRef(id="cpp/tiles", role="practice", q=0.25, reasons={"cause": 0.25}), ContextRef(id="cpp/abi", role="api"))
    attempts = [
        sample_run.make_attempt(task, 0, sample_run.passed_outcome(3.0), shown_items=refs),
        sample_run.make_attempt(task, 1, Outcome(gates=())),
    ]
    sample_run.write_run(tmp_path / "one", [task], attempts)

    def run_command(*arguments):
        return CliRunner().invoke(memory_command, ["explain", str(tmp_path / "one"), *arguments], catch_exceptions=False).output

    assert "+0.25 meant for a cause of the latency" in run_command("made/relu/0")
    assert [ref["q"] for ref in json.loads(run_command("made/relu/0", "--json"))] == [0.25, None]
    assert "no memory items" in run_command("made/relu/1")
    with pytest.raises(UserError, match="has no attempt 'made/relu/7'"):
        run_command("made/relu/7")
