"""Arms × seeds: every run has its folder, is resumed and never mixed with another; contaminated packs are refused."""

import shutil
import sqlite3

import numpy as np
import pytest
from engine_parts import RENAMED

from evokernel.app import factory
from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem
from evokernel.experiments import runner
from evokernel.experiments.arm_runs import complete_run, learn_pack, make_arm_run, refuse_contamination
from evokernel.experiments.intervals import bootstrap_interval, build_grid, difference_interval
from evokernel.experiments.run_session import TimeLimitReached
from evokernel.experiments.spec import ArmSpec, ExperimentSpec
from evokernel.memory.pack_contamination import list_contamination
from evokernel.suites.loader import find_task_files, load_tasks

pytestmark = pytest.mark.toolchain

SILENT = {"generator": {"name": "from_files", "folder": "replies"}}
TASK = '"""Twice."""\nimport torch\nN = {n}\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x {op} 2\n'
INPUTS = "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two operators, one of them in two sizes, and a generator without replies: every attempt ends at once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies").mkdir()
    for name, n, op in (("twice", 32, "*"), ("again", 48, "*"), ("half", 32, "/")):
        (tmp_path / f"{name}.py").write_text(TASK.format(n=n, op=op) + INPUTS)
    return tmp_path


def make_spec(*arms, seeds=2, groups=None, **more):
    settings = {"backend": "cpp", "clock": "synthetic", "budget": 1, "workers": 1, **SILENT, **more}
    return ExperimentSpec(
        name="s", title="", description="", groups=groups or {"test": "twice.py"}, arms=arms, seeds=seeds, settings=settings
    )


def make_run(folder, name, task="twice.py", seed=0, pack=None, **more):
    """The run of an experiment with one arm on one task."""
    arm = ArmSpec(name=name)
    return make_arm_run(make_spec(arm, **more), arm, (task,), folder, seed, pack)


def run_all(spec, folder, listen=lambda run, record: None):
    return runner.run_experiment(spec, runner.select_operators(spec), folder, listen)


def test_a_time_limit_leaves_runs_that_continue(here):
    spec = make_spec(ArmSpec(name="value"), ArmSpec(name="passk"))
    with pytest.raises(TimeLimitReached):
        runner.run_experiment(spec, runner.select_operators(spec), here / "out", time_limit_s=1e-3)
    assert runner.count_complete_seeds(spec, here / "out") == 0
    run_all(spec.model_copy(update={"seeds": 1}), here / "out")
    assert runner.count_complete_seeds(spec, here / "out") == 1
    results = run_all(spec, here / "out")
    assert runner.count_complete_seeds(spec, here / "out") == 2
    assert [len(results[arm]) for arm in ("value", "passk")] == [2, 2]


def test_runs_of_an_experiment_use_the_same_workers(here, monkeypatch):
    engines = []
    create = factory.create_engine
    monkeypatch.setattr(factory, "create_engine", lambda *args: engines.append(create(*args)) or engines[-1])
    run_all(make_spec(ArmSpec(name="value"), seeds=2), here / "out")
    assert len({id(engine.executor.executor) for engine in engines}) == 1 < len(engines)


def test_every_arm_and_seed_is_a_run_that_is_made_once(here):
    arms = ArmSpec(name="passk", settings={"policy": "passk"}), ArmSpec(name="value")
    run_ids = []
    results = run_all(make_spec(*arms), here / "out", lambda run, attempt: run_ids.append(attempt.run))
    assert {arm: list(seeds) for arm, seeds in results.items()} == {"passk": [0, 1], "value": [0, 1]}
    assert {folder.name for folder in (here / "out").iterdir()} == {"passk-0", "passk-1", "value-0", "value-1"}
    assert run_ids == ["s-passk-0", "s-value-0", "s-passk-1", "s-value-1"]
    assert make_arm_run(make_spec(*arms), arms[0], ("twice.py",), here, 0).config.plugin_name("policy") == "passk"
    run_ids.clear()
    run_all(make_spec(*arms), here / "out", lambda run, attempt: run_ids.append(attempt.id))
    assert run_ids == []
    resumed = run_all(make_spec(*arms, budget=2), here / "out")
    assert [len(result.attempts) for seeds in resumed.values() for (result,) in seeds.values()] == [2] * 4
    with pytest.raises(UserError, match=r"passk-0 was started with protocol = 'strict', not 'paper'"):
        run_all(make_spec(*arms, budget=2, protocol="paper"), here / "out")


def test_arm_with_a_pack_starts_with_its_items(here):
    pack = learn_pack(make_run(here / "pack", "learn", "half.py", 7))
    shown_ids = []
    (result,) = complete_run(
        make_run(here / "out", "warm", pack=pack), lambda run, attempt: shown_ids.extend(ref.id for ref in attempt.shown_items)
    )
    assert len(result.attempts) == 1
    assert any(id.startswith("s-learn-7:") for id in shown_ids)


def test_arm_runs_on_its_own_groups(here):
    arms = ArmSpec(name="own", groups=("other",)), ArmSpec(name="all")
    results = run_all(make_spec(*arms, seeds=1, groups={"test": "twice.py", "other": "again.py"}), here / "own")
    ids = {name: [result.task.id for result in by_seed[0]] for name, by_seed in results.items()}
    assert ids == {"own": [load_tasks("again.py")[0].id], "all": [task.id for task in load_tasks("twice.py,again.py")]}


def test_existing_pack_is_reused_only_for_the_same_settings(here):
    def learn(**more):
        return learn_pack(make_run(here / "pack", "learn", "half.py", 7, **more))

    pack = learn()
    before = pack.read_bytes()
    assert learn(budget=2).read_bytes() == before, "a larger budget does not change an existing pack"
    with pytest.raises(UserError, match=r"learn-7 was started with policy = .*'value'.*, not .*'passk'"):
        learn(policy="passk")
    shutil.rmtree(here / "pack" / "learn-7")
    assert learn(policy="passk").read_bytes() == before, "its run may be missing"


def test_arm_is_resumed_only_with_its_original_pack(here):
    one, other = (learn_pack(make_run(here / "pack", name, "half.py", 7)) for name in ("one", "other"))

    def resume(pack, **more):
        return complete_run(make_run(here / "out", "warm", pack=pack, **more))

    resume(one)
    (result,) = resume(one, budget=2)
    assert len(result.attempts) == 2
    for budget in (2, 3):
        with pytest.raises(UserError, match=r"warm-0 was started with memory pack \w{12}, but .*other-7.jsonl is now \w{12}"):
            resume(other, budget=budget)
    one.write_bytes(other.read_bytes())
    with pytest.raises(UserError, match="restore that pack"):
        resume(one, budget=2)
    with sqlite3.connect(here / "out" / "warm-0" / "memory.db") as bank:
        bank.execute("DELETE FROM packs")
    (result,) = resume(other, budget=3)
    assert len(result.attempts) == 3, "a bank without a stored hash is accepted"


def test_contaminated_pack_is_refused(here):
    pack = learn_pack(make_run(here / "pack", "learn", "again.py", 7))
    with pytest.raises(UserError, match="contains data on operators it is evaluated on"):
        refuse_contamination(make_run(here, "warm", pack=pack))
    refuse_contamination(make_run(here, "warm", "half.py", pack=pack))


def test_contamination_is_found_by_task_and_by_reference_at_any_size(here):
    twice, half = load_tasks("twice.py")[0], load_tasks("half.py")[0]
    shared = {"kind": "trace", "backend": "cpp", "title": "t", "text": "t"}
    by_id = MemoryItem(id="a", task=twice.id, key="other text", **shared)
    by_text = MemoryItem(id="b", task="elsewhere/double", key=twice.source.replace("32", "4096").replace("Twice", "Double"), **shared)
    card = MemoryItem(id="c", key=twice.source, **shared)
    assert list_contamination([by_id], [twice, half]) == [twice.id]
    assert list_contamination([by_text], [twice]) == [f"{twice.id} as elsewhere/double"]
    assert list_contamination([by_text, card], [half]) == []
    assert list_contamination([card], [twice]) == [f"{twice.id} in c"], "an item without a task, such as seed knowledge"
    assert list_contamination([by_text.model_copy(update={"key": "not python ("})], [twice]) == []


def test_renamed_duplicate_is_found_and_neighbours_are_not():
    """A duplicate under another id with other names, numbers and comments; a text that quotes it; all other operators of two suites."""
    (task,) = load_tasks("level2/linear_relu_divide")
    shared = {"kind": "trace", "backend": "cpp", "title": "t"}
    assert list_contamination([MemoryItem(id="a", task="elsewhere/mine", key=RENAMED, text="t", **shared)], [task]) == [
        f"{task.id} as elsewhere/mine"
    ]
    quoting = MemoryItem(id="c", task="elsewhere/note", key="other", text=f"It was for this:\n{RENAMED}Good luck.", **shared)
    assert list_contamination([quoting], [task]) == [f"{task.id} in c"]
    others = {one.id: one.path.read_text() for one in find_task_files("level1,level2") if one.id != task.id}
    neighbours = [MemoryItem(id=id, task=f"n/{id}", key=text, text=text, **shared) for id, text in others.items()]
    assert list_contamination(neighbours, [task]) == []


def test_interval_contains_the_mean_and_paired_interval_is_narrower():
    random = np.random.default_rng(1)
    operators = random.normal(0, 5, (40, 1))
    one, other = (operators + shift + random.normal(0, 0.1, (40, 5)) for shift in (1.0, 0.0))
    mean, difference = bootstrap_interval(one), difference_interval(one, other)
    assert mean.low < mean.mean < mean.high
    assert mean.value_count == 200
    assert 0.9 < difference.low < 1.0 < difference.high < 1.1
    assert difference.high - difference.low < (mean.high - mean.low) / 10
    assert bootstrap_interval(np.full((2, 2), np.nan)) is None
    one[0] = np.nan
    assert difference_interval(one, other).value_count == 195
    assert bootstrap_interval(np.zeros((3, 1))).exp() == (1.0, 1.0, 1.0, 3)


def test_grid_has_operators_as_rows_and_seeds_as_columns():
    assert build_grid({1: ["a", "bb"], 0: ["ccc", "d"]}, lambda word: None if word == "d" else len(word)).tolist()[0] == [3.0, 1.0]
