"""Offline evaluation on journals whose truth is known."""

import json

import pytest
from click.testing import CliRunner
from engine_parts import EchoGenerator, make_attempt, make_engine, make_task

from evokernel.cli.offline import command
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import GateResult, Outcome, Stage
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.experiments.offline import evaluate_policy, open_replay
from evokernel.experiments.offline_estimates import Decision, estimate_policy, ratio_interval
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill

TASKS = [make_task(f"relu{n}") for n in range(60)]
GOOD = ("old:t/relu/0", "old:t/gelu/0")


class RuleExecutor:
    """A kernel is correct if its prompt showed a good item; on a quarter of the tasks it always is."""

    def submit(self, job):
        from concurrent.futures import Future

        future = Future()
        is_correct = rule(job.task.id, job.candidate.files["kernel.cpp"])
        gates = (
            GateResult(gate="build", passed=True),
            GateResult(gate="check", passed=is_correct, reason="" if is_correct else "mismatch"),
        )
        future.set_result(Outcome(gates=gates, samples_us=(5.0,) if is_correct else ()))
        return future

    def close(self):
        pass


def rule(task, text):
    return any(id in text for id in GOOD) or sum(task.encode()) % 4 == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Three runs of one draft per task by the value policy with many random choices, from the same memory."""
    folders = []
    for seed in range(3):
        folder = tmp_path_factory.mktemp("run") / "run"
        with Bank.open(folder.parent / "memory.db", make_plugin("embedder", "hash"), backend="cpp", run="old") as bank:
            for name in ("relu", "gelu", "matmul", "softmax"):
                bank.add(distill(make_task(name, name), make_attempt(0, name, run="old"))[:1])
        engine = make_engine(
            folder,
            budget=1,
            tasks=TASKS,
            executor=RuleExecutor(),
            generator=EchoGenerator(),
            bank=folder.parent / "memory.db",
            seed=seed,
            epsilon=0.8,
            epsilon_end=0.8,
            top_n=1,
        )
        list(engine.make_attempts())
        engine.run.save_config(engine.run.config.model_copy(update={"memory": str(folder.parent / "memory.db")}))
        engine.close()
        folders.append(folder)
    return folders


def true_reward(folder, name, settings):
    """Mean reward that a policy earns by itself on the same tasks with the same memory."""
    run = Run.open(folder)
    rewards = []
    with open_replay(run) as memory:
        for task in TASKS:
            text = " ".join(entry.item.id for entry in make_plugin("policy", name, **settings).choose(State(task=task), memory).items)
            rewards.append(1.0 if rule(task.id, text) else -1.0)
    return sum(rewards) / len(rewards)


@pytest.mark.parametrize(("name", "settings"), [("similarity", {"top_n": 1}), ("similarity", {"top_n": 0}), ("refine", {})])
def test_estimates_find_the_true_reward_of_another_policy(recorded, name, settings):
    decisions = [one for folder in recorded for one in evaluate_policy(Run.open(folder), name, settings, 1)]
    estimate = estimate_policy(name, Stage.DRAFT, decisions)
    truth = true_reward(recorded[0], name, settings)
    assert estimate.attempts == 180
    if settings == {"top_n": 1}:
        assert estimate.effective > 20
        assert estimate.inverse_propensity.low - 0.05 <= truth <= estimate.inverse_propensity.high + 0.05
        assert estimate.doubly_robust.low <= truth <= estimate.doubly_robust.high
        assert estimate.difference.low > 0 or truth <= estimate.recorded
    else:
        assert not estimate.is_informative, "no recorded attempt was shown nothing"


def test_policy_that_recorded_the_runs_is_estimated_as_recorded(recorded):
    settings = {"epsilon": 0.8, "epsilon_end": 0.8, "top_n": 1}
    estimate = estimate_policy("value", Stage.DRAFT, evaluate_policy(Run.open(recorded[0]), "value", settings, 12))
    assert estimate.doubly_robust.mean == pytest.approx(estimate.recorded, abs=0.25)
    assert estimate.effective > 25


def make_decision(task, shown, reward, match, propensity):
    features = {"base": 1.0, **({"shown": 1.0} if shown else {})}
    return Decision("r", task, Stage.DRAFT, reward, propensity, match, features, ({"base": 1.0, "shown": 1.0},))


def test_doubly_robust_estimate_uses_weights_and_model():
    """Shown: +1 on 30 tasks; not shown: -1 on 90. A policy that always shows earns +1, though the recorded mean is -0.5."""
    decisions = [
        make_decision(f"t{n}", n % 4 == 0, 1.0 if n % 4 == 0 else -1.0, float(n % 4 == 0), 0.25 if n % 4 == 0 else 0.75) for n in range(120)
    ]
    estimate = estimate_policy("p", Stage.DRAFT, decisions)
    assert estimate.recorded == pytest.approx(-0.5)
    assert estimate.inverse_propensity.mean == pytest.approx(1.0)
    assert estimate.doubly_robust.mean == pytest.approx(1.0, abs=0.05)
    assert estimate.effective == pytest.approx(30)


def test_interval_covers_the_mean_of_clusters():
    import numpy as np

    random = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        values = random.normal(0.3, 1.0, 40)
        interval = ratio_interval(values, np.ones(40), [str(n) for n in range(40)])
        hits += interval.low <= 0.3 <= interval.high
    assert 178 <= hits <= 200


def run_command(*arguments):
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)


def test_command_prints_a_table_and_json(recorded):
    text = run_command(*recorded[:1], "--policies", "similarity", "--set", "similarity.top_n=1").output
    assert "doubly robust" in text
    (row,) = json.loads(run_command(*recorded[:1], "--policies", "similarity", "--set", "similarity.top_n=1", "--json").output)
    assert (row["policy"], row["stage"], row["attempts"]) == ("similarity", "draft", 60)
    assert row["doubly_robust"]["low"] <= row["doubly_robust"]["mean"] <= row["doubly_robust"]["high"]


def test_wrong_input_is_refused_in_one_line(recorded, tmp_path):
    engine = make_engine(tmp_path / "run", budget=1, tasks=TASKS[:2], policy="similarity")
    list(engine.make_attempts())
    engine.close()
    with pytest.raises(UserError, match="has no propensities: its policy 'similarity' does not draw at random"):
        run_command(tmp_path / "run", "--policies", "value")
    with pytest.raises(UserError, match="policy 'passk' cannot be evaluated offline"):
        run_command(recorded[0], "--policies", "passk")
    with pytest.raises(UserError, match="--set top_n"):
        run_command(recorded[0], "--policies", "value", "--set", "top_n=2")
