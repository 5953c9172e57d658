"""The journals in results/model, written by a model on a GPU: folding them again gives the values on which their choices were based."""

import tarfile
from pathlib import Path

import pytest

from evokernel.app import factory
from evokernel.core.records import Stage
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.engine.attempt_maker import compute_reward
from evokernel.experiments import arm_runs
from evokernel.memory.distill import distill
from evokernel.policies.value_model import ValueModel, load_observations

ARCHIVE = Path(__file__).parents[2] / "results" / "model" / "runs.tar.xz"
ARMS = ("nothing-brief", "varied-brief", "value-brief", "contextual-brief", "nothing-full", "varied-full", "value-full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The journals of the first seed, and the memory pack that its arms started with."""
    folder = tmp_path_factory.mktemp("model")
    names = {f"cpp/{arm}-0/{file}" for arm in ARMS for file in ("run.toml", "attempts.jsonl", "tasks.jsonl")}
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, [one for one in archive if one.name in {*names, "cpp/packs/offline-0.jsonl"}], filter="data")
    return folder / "cpp"


@pytest.mark.parametrize("arm", ARMS)
def test_rewards_follow_from_the_outcomes(folder, arm):
    run, earlier = Run.open(folder / f"{arm}-0"), {}
    tasks = {task.id: task for task in run.tasks}
    for attempt in run.attempts():
        before = earlier.setdefault(attempt.task, [])
        best = State(task=tasks[attempt.task], attempts=tuple(before), round=attempt.round).best
        assert attempt.reward == compute_reward(attempt.stage, attempt.outcome, best)
        before.append(attempt)
    assert len(earlier) == 40


def test_values_of_the_second_round_follow_from_the_first(folder, tmp_path):
    """What the journal of `contextual` says it expected of each item is what the model expects after the rewards before."""
    run = Run.open(folder / "contextual-brief-0")
    config = run.config.model_copy(update={"memory": str(tmp_path / "memory.db"), "fresh": False})
    arm_runs.import_pack_into_bank(folder / "packs" / "offline-0.jsonl", config)
    policy, memory = factory.make_part(config, "policy"), factory.open_bank(config, None, factory.make_part(config, "embedder"), {})
    compared, history, tasks = {0: 0, 1: 0}, {}, {task.id: task for task in run.tasks}
    try:
        for round in compared:
            attempts = [attempt for attempt in run.attempts() if attempt.round == round]
            model = ValueModel(Stage.DRAFT, load_observations(memory, "cpp", Stage.DRAFT), (), policy.record_visits)
            for attempt in attempts:
                for ref in (ref for ref in (*attempt.shown_items, *attempt.truncated_items) if ref.features):
                    assert ref.q == pytest.approx(sum(model.explain(ref.id, ref.features).values()), abs=2e-4)
                    compared[round] += 1
            for attempt in attempts:
                task, before = tasks[attempt.task], history.setdefault(attempt.task, [])
                policy.learn(State(task=task, attempts=tuple(before), round=round), attempt, memory)
                memory.add(distill(task, attempt, before))
                before.append(attempt)
    finally:
        memory.close()
    assert min(compared.values()) > 50
