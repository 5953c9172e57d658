"""Arms × seeds: every run in its folder, gone on with, never mixed; packs that tell too much are refused."""

import shutil
import sqlite3

import numpy as np
import pytest
from model_parts import RENAMED

from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem
from evokernel.experiments.arm_runs import Arm, Study, cells, check_pack, conduct, learn_pack, settings
from evokernel.experiments.intervals import difference, grid, interval
from evokernel.experiments.pack_contamination import leaks
from evokernel.tasks.loader import files, load

SILENT = {"generator": {"name": "from_files", "folder": "replies"}}
TASK = '"""Twice."""\nimport torch\nN = {n}\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x {op} 2\n'
INPUTS = "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two operators, one of them in two sizes, and nobody who answers anything: every attempt ends at once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies").mkdir()
    for name, n, op in (("twice", 32, "*"), ("again", 48, "*"), ("half", 32, "/")):
        (tmp_path / f"{name}.py").write_text(TASK.format(n=n, op=op) + INPUTS)
    return tmp_path


def study(*arms, tasks=("twice.py",), seeds=(0, 1), **more):
    table = {"backend": "cpp", "clock": "synthetic", "budget": 1, "workers": 1, **SILENT, **more}
    return Study(name="s", tasks=tasks, arms=arms, seeds=seeds, settings=table)


def test_every_arm_and_seed_is_a_run_of_its_own_and_is_made_once(here):
    arms = Arm(name="passk", settings={"policy": "passk"}), Arm(name="value")
    made = []
    found = conduct(study(*arms), here / "out", lambda run, attempt: made.append(attempt.run))
    assert {arm: list(seeds) for arm, seeds in found.items()} == {"passk": [0, 1], "value": [0, 1]}
    assert {cell.folder for cell in cells(study(*arms), here / "out")} == set((here / "out").iterdir())
    assert made == ["s-passk-0", "s-value-0", "s-passk-1", "s-value-1"]
    assert settings(study(*arms), cells(study(*arms), here / "out")[0]).plugin_name("policy") == "passk"
    made.clear()
    conduct(study(*arms), here / "out", lambda run, attempt: made.append(attempt.id))
    assert made == []
    again = conduct(study(*arms, budget=2), here / "out")
    assert [len(tried.attempts) for seeds in again.values() for (tried,) in seeds.values()] == [2] * 4
    with pytest.raises(UserError, match=r"passk-0 was begun with protocol = 'strict', not 'paper'"):
        conduct(study(*arms, budget=2, protocol="paper"), here / "out")


def test_a_warm_arm_begins_with_what_was_learned_elsewhere(here):
    pack = learn_pack(study(Arm(name="learn"), tasks=("half.py",), seeds=(7,)), here / "pack")
    warm = study(Arm(name="warm", pack=pack), seeds=(0,))
    seen = []
    (tried,) = conduct(warm, here / "out", lambda run, attempt: seen.extend(ref.id for ref in attempt.shown_items))["warm"][0]
    assert len(tried.attempts) == 1
    assert any(id.startswith("s-learn-7:") for id in seen)
    own = study(Arm(name="own", tasks=("again.py",)), seeds=(0,))
    assert [tried.task.id for tried in conduct(own, here / "own")["own"][0]] == [load("again.py")[0].id], "tasks of its own"


def test_a_pack_is_taken_again_only_for_the_same_settings(here):
    def learn(**more):
        return learn_pack(study(Arm(name="learn"), tasks=("half.py",), seeds=(7,), **more), here / "pack")

    pack = learn()
    before = pack.read_bytes()
    assert learn(budget=2).read_bytes() == before, "a larger budget is for what is still to come"
    with pytest.raises(UserError, match=r"learn-7 was begun with policy = .*'value'.*, not .*'passk'"):
        learn(policy="passk")
    shutil.rmtree(here / "pack" / "learn-7")
    assert learn(policy="passk").read_bytes() == before, "its run may be gone"


def test_an_arm_goes_on_with_the_pack_it_began_with_only(here):
    one, other = (learn_pack(study(Arm(name=name), tasks=("half.py",), seeds=(7,)), here / "pack") for name in ("one", "other"))

    def go_on(pack, **more):
        return conduct(study(Arm(name="warm", pack=pack), seeds=(0,), **more), here / "out")["warm"][0]

    go_on(one)
    (tried,) = go_on(one, budget=2)
    assert len(tried.attempts) == 2
    for budget in (2, 3):
        with pytest.raises(UserError, match=r"warm-0 was begun with memory pack \w{12}, not \w{12} as .*other-7.jsonl is now"):
            go_on(other, budget=budget)
    one.write_bytes(other.read_bytes())
    with pytest.raises(UserError, match="put that pack back"):
        go_on(one, budget=2)
    with sqlite3.connect(here / "out" / "warm-0" / "memory.db") as bank:
        bank.execute("DELETE FROM packs")
    (tried,) = go_on(other, budget=3)
    assert len(tried.attempts) == 3, "where no hash was kept"


def test_a_pack_that_knows_the_operators_is_refused(here):
    pack = learn_pack(study(Arm(name="learn"), tasks=("again.py",), seeds=(7,)), here / "pack")
    with pytest.raises(UserError, match="tells about what it is to be tried on"):
        check_pack(Arm(name="warm", pack=pack), study())
    check_pack(Arm(name="warm", pack=pack, tasks=("half.py",)), study())


def test_leaks_are_found_by_task_and_by_text_at_any_size(here):
    twice, half = load("twice.py")[0], load("half.py")[0]
    shared = {"kind": "trace", "backend": "cpp", "title": "t", "text": "t"}
    by_id = MemoryItem(id="a", task=twice.id, key="other text", **shared)
    by_text = MemoryItem(id="b", task="elsewhere/double", key=twice.source.replace("32", "4096").replace("Twice", "Double"), **shared)
    card = MemoryItem(id="c", key=twice.source, **shared)
    assert leaks([by_id], [twice, half]) == [twice.id]
    assert leaks([by_text], [twice]) == [f"{twice.id} as elsewhere/double"]
    assert leaks([by_text, card], [half]) == []
    assert leaks([card], [twice]) == [f"{twice.id} in c"], "of no task, as seed knowledge is"
    assert leaks([by_text.model_copy(update={"key": "not python ("})], [twice]) == []


def test_a_renamed_duplicate_is_found_and_a_neighbour_is_not():
    """Planted under another id, with other names, numbers and words; in a text that quotes it; beside all other operators of two suites."""
    (task,) = load("level2/linear_relu_divide")
    shared = {"kind": "trace", "backend": "cpp", "title": "t"}
    assert leaks([MemoryItem(id="a", task="elsewhere/mine", key=RENAMED, text="t", **shared)], [task]) == [f"{task.id} as elsewhere/mine"]
    quoting = MemoryItem(id="c", task="elsewhere/note", key="other", text=f"It was for this:\n{RENAMED}Good luck.", **shared)
    assert leaks([quoting], [task]) == [f"{task.id} in c"]
    others = {one.id: one.path.read_text() for one in files("level1,level2") if one.id != task.id}
    neighbours = [MemoryItem(id=id, task=f"n/{id}", key=text, text=text, **shared) for id, text in others.items()]
    assert leaks(neighbours, [task]) == []


def test_intervals_hold_the_mean_and_pairs_are_narrower():
    random = np.random.default_rng(1)
    operators = random.normal(0, 5, (40, 1))
    one, other = (operators + shift + random.normal(0, 0.1, (40, 5)) for shift in (1.0, 0.0))
    mean, paired = interval(one), difference(one, other)
    assert mean.low < mean.mean < mean.high
    assert mean.figures == 200
    assert 0.9 < paired.low < 1.0 < paired.high < 1.1
    assert paired.high - paired.low < (mean.high - mean.low) / 10
    assert interval(np.full((2, 2), np.nan)) is None
    one[0] = np.nan
    assert difference(one, other).figures == 195
    assert interval(np.zeros((3, 1))).exp() == (1.0, 1.0, 1.0, 3)


def test_a_grid_has_operators_down_and_seeds_across():
    assert grid({1: ["a", "bb"], 0: ["ccc", "d"]}, lambda word: None if word == "d" else len(word)).tolist()[0] == [3.0, 1.0]
