"""Experiments are files: read, checked, changed by settings, carried out in small, and told with what they took."""

import json

import pytest

from evokernel.core.errors import UserError
from evokernel.experiments import expected, lab, plans

TASK = "import torch\nN = {n}\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return {expression}\n"
INPUTS = "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n"
OPERATORS = {"one": "torch.relu(x)", "two": "x * 3 - 1", "three": "x.sum(-1)", "four": "torch.tanh(x) + x"}
MINIMAL = """
title = "Mine"
about = "A try."
[groups]
A = "starter/softmax"
[[arms]]
name = "value"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, expression in OPERATORS.items():
        (tmp_path / f"{name}.py").write_text(TASK.format(n=16, expression=expression) + INPUTS)
    return tmp_path


def small(name: str, is_real: bool = True) -> list[str]:
    """Settings that make an experiment a matter of seconds: a tiny operator for every group, and else nobody who writes anything."""
    plan = plans.read(name)
    groups = [f"groups.{group}={operator}.py" for group, operator in zip(plan.groups, OPERATORS)]
    backends = [f"arms.{arm.name}.backend=cpp" for arm in plan.arms if "backend" in arm.settings]
    silent = ["generator=script", "generator.folder=replies"]
    return [*groups, *backends, *([] if is_real else silent), "backend=cpp", "clock=synthetic", "workers=1", "budget=2", "seeds=1"]


REAL = "figure6"
"""The one whose kernels are written and judged by default; the others are with -m ""."""


@pytest.mark.parametrize("name", plans.shipped())
@pytest.mark.parametrize("is_real", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_experiment_runs_from_end_to_end(here, call, name, is_real):
    (here / "replies").mkdir()
    flags = [text for setting in small(name, is_real or name == REAL) for text in ("--set", setting)]
    said = call("experiment", name, *flags, "--out", here / "out", "--json")
    assert said.code == 0, said.err
    plan = plans.read(name)
    assert set(said.json["groups"]) == set(plan.told or plan.groups)
    text = (here / "out" / "experiment.md").read_text()
    assert text.startswith(f"# {plan.title}")
    assert ("Acc, judged again" in text) == (plan.again is not None), "a figure that was not taken is not told"
    assert "Made with: " in text
    runs = {path.parent.name for path in (here / "out").glob("*/run.toml")}
    assert runs == {f"{arm.name}-0" for arm in plan.arms if not arm.lacks()}
    assert len(list((here / "out" / "packs").glob("*.jsonl"))) == len(plan.packs)
    for figures in said.json["groups"].values():
        for arm in figures["arms"].values():
            assert arm["Acc"]["mean"] in ((0.0, 1.0) if is_real or name == REAL else (0.0,))


def test_a_second_call_makes_nothing_again(here, call):
    (here / "replies").mkdir()
    flags = [text for setting in small("figure5", is_real=False) for text in ("--set", setting)]
    first = call("experiment", "figure5", *flags, "--out", here / "out", "--json").json
    before = {path: path.stat().st_mtime_ns for path in (here / "out").rglob("attempts.jsonl")}
    assert call("experiment", "figure5", *flags, "--out", here / "out", "--json").json == first
    assert {path: path.stat().st_mtime_ns for path in (here / "out").rglob("attempts.jsonl")} == before


def test_a_dry_run_counts_attempts_and_says_what_is_not_known(here, call):
    found = call("experiment", "table2", "--dry-run", "--json").json
    assert found["attempts"] == 3 * 3 * 200 * 30, "three arms, three seeds, two hundred operators, thirty attempts"
    assert found["cost_usd"] == 0, "no model is asked"
    assert found["seconds"] is None
    said = call("experiment", "figure5", "--dry-run", "--operators", 2, "--seeds", 1, "--set", "budget=3")
    assert "24 attempts at most" in said.out, "a pack and three arms of two operators"
    assert "not known" in said.out
    paid = call("experiment", "table2", "--dry-run", "--json", "--set", "generator=llm", "--set", "generator.model=gpt-5").json
    assert paid["cost_usd"] is None, "missing is not nought"


def test_what_earlier_runs_took_tells_what_is_to_be_expected(here, call):
    flags = ["--set", "groups.A=one.py", "--set", "backend=cpp", "--set", "workers=1", "--set", "timing_s=0.01", "--set", "budget=2"]
    (here / "mine.toml").write_text(MINIMAL)
    assert call("experiment", "mine.toml", *flags, "--seeds", 1).code == 0
    plan = plans.read("mine.toml", ["groups.A=one.py", "backend=cpp", "budget=50"])
    (row,) = expected.expected(plan, lab.operators(plan), [here / "runs"])
    assert row.rate.attempts == 2
    assert row.attempts == 150
    assert row.seconds == pytest.approx(75 * 2 * row.rate.seconds)
    assert row.cost_usd == 0


def test_groups_are_sampled_over_the_whole(here):
    plan = plans.read("table1")
    found = lab.operators(plan, 4)
    whole = lab.operators(plan)
    assert [len(tasks) for tasks in found.values()] == [4, 4]
    assert [task.id for task in found["L1"]] == [whole["L1"][place].id for place in (0, 25, 50, 75)]
    assert all("/" in spec and not spec.startswith("/") for spec in lab.specs(found, ["L1"])), "shipped ones by their place"
    mine = plans.read("table1", ["groups.L1=one.py,two.py"])
    assert lab.specs(lab.operators(mine, 1), ["L1"]) == (str(here / "one.py"),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "value"', 'name = "value"\ngroups = ["B"]', "no group 'b'"),
        ('name = "value"', 'name = "value"\npack = "p"', "begins with pack 'p'"),
        ('name = "value"', 'name = "a b"', "need names"),
        ('title = "Mine"', "", "title: field required"),
        ('name = "value"', 'name = "value"\nsettings = { budgte = 3 }', "no setting 'budgte'"),
        ('about = "A try."', 'about = "A try."\nagainst = [["value", "other"]]', "no arm 'other'"),
        ('title = "Mine"', 'title = "Mine"\nkind = "poem"', "kind"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_a_line(here, old, new, message):
    (here / "mine.toml").write_text(MINIMAL.replace(old, new))
    with pytest.raises(UserError, match=message):
        plans.read("mine.toml")


def test_calls_that_are_wrong(here, call):
    for arguments, message in [
        (("figur5",), "did you mean 'figure5'"),
        (("figure5", "--arms", "vale"), "did you mean 'value'"),
        (("figure5", "--set", "arms.vale.budget=3"), "no arm 'vale'"),
        (("figure5", "--set", "packs.L2.budget=3"), "no pack 'L2'"),
        (("gone.toml",), "cannot read gone.toml"),
        (("table2", "--arms", "agent"), "no arm of experiment 'table2' is left"),
    ]:
        said = call("experiment", *arguments)
        assert said.code == 2
        assert message in said.err


def test_the_list_names_them_all(call):
    assert [found["name"] for found in call("experiment", "--list", "--json").json] == list(plans.shipped())
    assert "figure5" in call("experiment").out


def test_an_arm_of_a_command_is_left_out_until_it_is_given(here, call):
    said = call("experiment", "table2", "--dry-run")
    assert "arm 'agent' is left out: --set arms.agent.generator.command" in said.err
    given = call("experiment", "table2", "--dry-run", "--json", "--set", "arms.agent.generator.command=cat")
    assert "agent" in [row["name"] for row in given.json["rows"]]
    assert json.dumps(given.json)
