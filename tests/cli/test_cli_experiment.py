"""Experiments from the command line: files, settings, small runs, reports and cost estimates."""

import json
from html import unescape
from pathlib import Path

import pytest
from sampling import one_in

from evokernel.cli.experiment import select_arms
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments import cost_estimate, paper_protocol_eval, runner, spec
from evokernel.reports import metrics

TASK = "import torch\nN = {n}\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return {expression}\n"
INPUTS = "\n\ndef get_inputs():\n    return [torch.rand(N, 4)]\n"
OPERATORS = {"one": "torch.relu(x)", "two": "x * 3 - 1", "three": "x.sum(-1)", "four": "torch.tanh(x) + x", "five": "torch.sigmoid(x)"}
REPLY = """```cpp
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] * 3.002f - 1;
}
```
"""
"""Passes the paper protocol for the second operator, but not the strict one."""
RIGHT_REPLY = REPLY.replace("x[i] * 3.002f - 1", "x[i] > 0 ? x[i] : 0.0f")
"""Passes for the first operator."""
MINIMAL = """
title = "Mine"
description = "A try."
[groups]
A = "starter/softmax"
[[arms]]
name = "value"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of a fixed name: it is part of the task ids, which seed the choices of a run."""
    folder = tmp_path / "operators"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, expression in OPERATORS.items():
        (folder / f"{name}.py").write_text(TASK.format(n=16, expression=expression) + INPUTS)
    (folder / "replies").mkdir()
    (folder / "reply.md").write_text(REPLY)
    (folder / "right.md").write_text(RIGHT_REPLY)
    (folder / "silent.md").write_text("I cannot write this kernel.\n")
    return folder


def small_settings(name: str, is_real: bool = True) -> list[str]:
    """Settings that shrink an experiment to seconds: a tiny operator per group, and a generator that writes nothing unless `is_real`."""
    plan = spec.read_spec(name)
    groups = [f"groups.{group}={operator}.py" for group, operator in zip(plan.groups, OPERATORS)]
    backends = [f"arms.{arm.name}.backend=cpp" for arm in plan.arms if "backend" in arm.settings]
    packs = [f"packs.{pack.name}." for pack in plan.packs if "generator" in pack.settings]
    silent = [text for place in ("", *packs) for text in (f"{place}generator=from_files", f"{place}generator.folder=replies")]
    agents = [f"arms.{arm.name}.{arm.needs}=cat reply.md" for arm in plan.arms if arm.needs]
    offline = ["generator=template_search"] if plan.run_config({}).plugin_name("generator") == "llm" else []
    writers = [*agents, *(offline if is_real else silent)]
    if any("name" not in arm.settings.get("generator", {"name": ""}) for arm in plan.arms):  # settings that only prompts have
        writers = ["generator=command", f"generator.command=cat {'right' if is_real else 'silent'}.md"]
    return [*groups, *backends, *writers, "backend=cpp", "clock=synthetic", "workers=1", f"budget={1 + is_real}", "seeds=1"]


AGENT = "table2"
"""The experiment with an arm for a command."""
OTHERS = [name for name in spec.shipped_experiments() if name != AGENT]
REAL = one_in(len(OTHERS) + 1, [(name, True) for name in spec.shipped_experiments()], group="experiments with kernels")
SILENT = one_in(3, [(name, False) for name in OTHERS], group="experiments without kernels")


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(("name", "is_real"), [(AGENT, False), *SILENT, *REAL])
def test_every_experiment_runs_end_to_end(here, call, name, is_real):
    flags = [text for setting in small_settings(name, is_real) for text in ("--set", setting)]
    flags += ["--protocol", "strict"] if name == AGENT else []
    plan = spec.read_spec(name)
    arms = [arm.name for arm in plan.arms][slice(1, 5) if plan.axes else slice(None)]  # combinations of axes are too many for a test
    flags += ["--arms", ",".join(arms)] if plan.axes else []
    result = call("experiment", name, *flags, "--out", here / "out", "--json")
    assert result.code == 0, result.err
    assert set(result.json["groups"]) == set(plan.report_groups or plan.groups)
    text = (here / "out" / "experiment.md").read_text()
    assert text.startswith(f"# {plan.title}")
    has_both_protocols = plan.final_eval is not None and plan.final_eval["protocol"] != plan.settings.get("protocol")
    assert ("| Acc, as published (1e-2) | Acc, strict |" in text) == has_both_protocols
    assert ("all operators: effect of the" in text) == (bool(plan.axes) and is_real)
    assert "Environment: " in text
    page = (here / "out" / "experiment.html").read_text()
    assert plan.title in unescape(page)
    assert page.count("<svg") == len(list((here / "out").glob("*.png")))
    runs = {path.parent.name for path in (here / "out").glob("*/run.toml")}
    assert runs == {f"{arm}-0" for arm in arms}
    assert len(list((here / "out" / "packs").glob("*.jsonl"))) == len(plan.packs)
    cells = [(group, arm) for group, figures in result.json["groups"].items() for arm in figures["arms"]]
    is_solved = {one: result.json["groups"][one[0]]["arms"][one[1]]["Acc"]["mean"] > 0 for one in cells}
    assert any(is_solved.values()) == is_real
    assert all(bool(result.json["groups"][group]["speed"][arm]) == is_solved[group, arm] for group, arm in cells), (
        "correct kernels are timed"
    )
    if name == AGENT and not is_real:
        check_both_protocols(result.json, here / "out" / "agent-0")


def check_both_protocols(report, folder):
    """In a strict search, the agent's kernel passes only the paper protocol."""
    rates = report["groups"]["L2"]["arms"]["agent"]
    assert (rates["Acc"]["mean"], rates["Acc, as published (1e-2)"]["mean"]) == (0.0, 1.0)
    assert report["protocol"] == {"loop": "strict", "final": "paper"}
    assert "--protocol strict" in report["command"]
    assert [line for line in report["summary"] if line.startswith("Solved, as published (1e-2): ") and "agent 100 %" in line]
    assert report["costs"]["agent"]["cost_usd"] is None, "a command does not report its cost"
    run = Run.open(folder)
    results = paper_protocol_eval.evaluate_rejected(
        metrics.collect_results(run, run.attempts()), folder, lambda run, record: pytest.fail("verified a third time")
    )
    assert [final.outcome.protocol for result in results for final in result.other_protocol_results.values()] == ["paper", "paper"]


def test_unusable_operators_are_excluded_and_listed(here, call, monkeypatch):
    (here / "mine.toml").write_text(MINIMAL)
    (here / "broken.py").write_text(TASK.format(n=16, expression="x.nothing()") + INPUTS)
    flags = [
        "--set",
        "groups.A=one.py,broken.py",
        "--set",
        "backend=cpp",
        "--set",
        "generator=from_files",
        "--set",
        "generator.folder=replies",
    ]
    result = call("experiment", "mine.toml", *flags, "--seeds", 1, "--set", "budget=1", "--out", here / "out")
    assert result.code == 0, result.err
    assert "broken is excluded" in result.err
    report = json.loads((here / "out" / "experiment.json").read_text())
    assert [name for name in report["skipped"] if name.endswith("/broken")]
    assert report["groups"]["A"]["operators"] == 1
    assert len(report["vacuous"]) == 1, "inputs between 0 and 1 equal their relu"
    alone = call("experiment", "mine.toml", "--set", "groups.A=broken.py", "--set", "backend=cpp", "--out", here / "none")
    assert (alone.code, "this machine can run no operator of group 'A'" in alone.err) == (2, True)


def test_second_call_repeats_nothing(here, call):
    flags = [text for setting in small_settings("figure5", is_real=False) for text in ("--set", setting)]
    flags += ["--arms", "similarity"]
    first = call("experiment", "figure5", *flags, "--out", here / "out", "--json").json
    before = {path: path.stat().st_mtime_ns for path in (here / "out").rglob("attempts.jsonl")}
    assert call("experiment", "figure5", *flags, "--out", here / "out", "--json").json == first
    assert {path: path.stat().st_mtime_ns for path in (here / "out").rglob("attempts.jsonl")} == before


def test_dry_run_counts_attempts_and_reports_unknown_costs(here, call):
    plan = call("experiment", "table2", "--dry-run", "--json").json
    assert plan["attempts"] == 3 * 3 * 200 * 30, "three arms, three seeds, two hundred operators, thirty attempts"
    assert plan["cost_usd"] == 0, "no model is asked"
    assert plan["seconds"] is None
    result = call("experiment", "figure5", "--dry-run", "--max-operators", 2, "--seeds", 1, "--set", "budget=3")
    assert "At most 24 attempts" in result.out, "a pack and three arms of two operators"
    assert "unknown" in result.out
    paid = call("experiment", "table2", "--dry-run", "--json", "--set", "generator=llm", "--set", "generator.model=gpt-5").json
    assert paid["cost_usd"] is None, "unknown is not zero"


@pytest.mark.slow(one_in=5)
def test_earlier_runs_give_the_cost_estimate(here, call):
    flags = ["--set", "groups.A=one.py", "--set", "backend=cpp", "--set", "workers=1", "--set", "timing_s=0.01", "--set", "budget=2"]
    (here / "mine.toml").write_text(MINIMAL)
    assert call("experiment", "mine.toml", *flags, "--seeds", 1).code == 0
    plan = spec.read_spec("mine.toml", ["groups.A=one.py", "backend=cpp", "budget=50"])
    (row,) = cost_estimate.estimate_costs(plan, runner.select_operators(plan), [here / "runs"])
    assert row.rate.attempts == 2
    assert row.attempts == 150
    assert row.seconds == pytest.approx(75 * 2 * row.rate.seconds_per_attempt)
    assert row.cost_usd == 0


def test_operators_are_sampled_evenly(here):
    plan = spec.read_spec("table1")
    sample = runner.select_operators(plan, 4)
    all_tasks = runner.select_operators(plan)
    assert [len(tasks) for tasks in sample.values()] == [4, 4]
    assert [task.id for task in sample["L1"]] == [all_tasks["L1"][index].id for index in (0, 25, 50, 75)]
    assert all("/" in spec and not spec.startswith("/") for spec in runner.task_patterns(sample, ["L1"])), "shipped ones by their place"
    mine = spec.read_spec("table1", ["groups.L1=one.py,two.py"])
    assert runner.task_patterns(runner.select_operators(mine, 1), ["L1"]) == (str(here / "one.py"),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "value"', 'name = "value"\ngroups = ["B"]', "group 'b' is not defined"),
        ('name = "value"', 'name = "value"\npack = "p"', "starts with pack 'p', which is not defined"),
        ('name = "value"', 'name = "a b"', "names of arms must differ"),
        ('title = "Mine"', "", "title: field required"),
        ('name = "value"', 'name = "value"\nsettings = { budgte = 3 }', "unknown setting 'budgte'"),
        ('description = "A try."', 'description = "A try."\ncompare = [["value", "other"]]', "arm 'other' is not defined"),
        ('title = "Mine"', 'title = "Mine"\nkind = "poem"', "kind"),
    ],
)
def test_invalid_file_is_reported_in_one_line(here, old, new, message):
    (here / "mine.toml").write_text(MINIMAL.replace(old, new))
    with pytest.raises(UserError, match=message):
        spec.read_spec("mine.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[arms]]", "[arms]", "arms is not a list of tables. Write [[arms]] above each arm"),
        ('[[arms]]\nname = "value"', "[arms.value]", "arms is not a list of tables. Write [[arms]] above each arm"),
        ("[groups]", 'arms = ["value"]\n[groups]', "arms is not a list of tables"),
        ('name = "value"', 'name = "value"\nsettings = 3', "settings = 3 is not a table"),
        ("[groups]", "settings = 3\n[groups]", "settings = 3 is not a table"),
    ],
)
def test_file_with_wrong_tables_is_reported_in_one_line(here, call, old, new, message):
    text = MINIMAL.replace(old, new)
    (here / "mine.toml").write_text(text.partition("[[arms]]")[0] if new.startswith("arms =") else text)
    result = call("experiment", "mine.toml", "--dry-run", "--set", "arms.value.budget=3", "--set", "budget=2")
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.strip().count("\n") == 0


def test_unsampled_operators_are_counted(here, call):
    (here / "mine.toml").write_text(MINIMAL.replace('A = "starter/softmax"', 'A = "one.py,two.py,three.py"\nB = "four.py,two.py"'))
    flags = [
        "--set",
        "backend=cpp",
        "--set",
        "generator=from_files",
        "--set",
        "generator.folder=replies",
        "--set",
        "budget=1",
        "--seeds",
        1,
    ]
    result = call("experiment", "mine.toml", *flags, "--max-operators", 2, "--out", here / "out", "--json")
    assert result.code == 0, result.err
    assert result.json["skipped"] == {"A: all but 2 of 3 operators": "--max-operators 2"}


def test_table_2_compares_with_the_agent_if_it_is_set():
    plan = spec.read_spec("table2", ["arms.agent.generator.command=cat"])
    assert ("value", "agent") in select_arms(plan, None)[0].compare
    assert ("value", "agent") not in select_arms(spec.read_spec("table2"), None)[0].compare


def test_wrong_arguments_are_refused(here, call):
    for arguments, message in [
        (("figur5",), "did you mean 'figure5'"),
        (("figure5", "--arms", "vale"), "did you mean 'value'"),
        (("figure5", "--set", "arms.vale.budget=3"), "no arm 'vale'"),
        (("figure5", "--set", "packs.L2.budget=3"), "no pack 'L2'"),
        (("gone.toml",), "cannot read gone.toml"),
        (("table2", "--arms", "agent"), "experiment 'table2' has no arm that can run"),
    ]:
        result = call("experiment", *arguments)
        assert result.code == 2
        assert message in result.err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("backend=nope", "pack 'L1': unknown backend 'nope'"),
        ("policy.lamda=3", "pack 'L1': policy 'value' has no setting 'lamda'"),
        ("arms.nothing.policy=pask", "arm 'nothing': unknown policy 'pask' (did you mean 'passk'?)"),
        (
            "arms.similarity.policy.top_n=-1",
            "arm 'similarity': policy 'similarity': top_n, api_cards, part_cards, card_chars and diversity_penalty cannot be negative",
        ),
        (
            "arms.value.generator.temprature=1",
            "arm 'value': generator 'template_search' has no setting 'temprature' (did you mean 'temperature'?)",
        ),
        ("packs.L1.embedder=hsh", "pack 'L1': unknown embedder 'hsh' (did you mean 'hash'?)"),
        ("executor.max_attempts=many", "pack 'L1': setting executor.max_attempts = 'many' must be an integer"),
        ("arms.value.budgte=3", "arm 'value': unknown setting 'budgte'"),
        ("arms.value.llm_review.modl=3", "arm 'value': unknown setting 'llm_review.modl' (did you mean 'model'?)"),
        ("final_eval.protocl=strict", "arm 'value', re-evaluation: unknown setting 'protocl' (did you mean 'protocol'?)"),
        ("final_eval.timing_s=0", "arm 'value', re-evaluation: setting 'timing_s' = 0"),
        ("seeds=-1", "seeds: input should be greater than or equal to 1"),
    ],
)
def test_settings_of_every_arm_are_checked_first(here, call, flag, message):
    for dry in ([], ["--dry-run"]):
        result = call("experiment", "figure5", "--max-operators", 1, *dry, "--set", flag, "--out", here / "out")
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert result.err.strip().count("\n") == 0
    assert not (here / "out").exists()


def test_settings_check_calls_no_service_and_skips_other_arms(here, call):
    paid = ["--set", "generator=llm", "--set", "generator.model=gpt-5", "--set", "embedder=openai", "--set", "executor=command"]
    assert call("experiment", "figure5", "--dry-run", *paid).code == 0, "without a key and a command"
    assert call("experiment", "table2", "--dry-run", "--arms", "value", "--set", "arms.passk.policy.bundel=true").code == 0


def test_list_prints_every_experiment(call):
    assert [row["name"] for row in call("experiment", "--list", "--json").json] == list(spec.shipped_experiments())
    assert "figure5" in call("experiment").out


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "results").glob("*.toml")), ids=lambda path: path.stem)
def test_experiments_of_our_results_have_a_plan(path, call):
    groups_by_path = [name for name, pattern in spec.read_spec(str(path)).groups.items() if pattern.startswith("./")]
    own_groups = [word for name in groups_by_path for word in ("--set", f"groups.{name}=starter")]  # instead of a checkout that is not here
    result = call("experiment", path, "--dry-run", "--max-operators", 40, "--json", *own_groups)
    assert result.code == 0, result.err
    own = spec.read_spec(str(path))
    if own.packs and own.compare:  # a comparison between operators needs enough of them for a confidence interval
        assert all(row["operators"] >= 40 for row in result.json["rows"] if row["part"] == "arm")
        assert own.seeds >= 3


def test_arm_of_a_command_is_excluded_until_the_command_is_set(here, call):
    result = call("experiment", "table2", "--dry-run")
    assert "arm 'agent' is excluded: set it with --set arms.agent.generator.command" in result.err
    with_agent = call("experiment", "table2", "--dry-run", "--json", "--set", "arms.agent.generator.command=cat")
    assert "agent" in [row["name"] for row in with_agent.json["rows"]]
    assert json.dumps(with_agent.json)
