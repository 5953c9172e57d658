"""Rewinding end to end: fast kernels of runs, banks and files, templates and models, with a real compiler and invented times."""

import json

import pytest
from chat_server import Behaviour, ChatServer
from cli_helpers import KERNEL, TASK
from click.testing import CliRunner

from evokernel.cli.memory import command
from evokernel.core import labels
from evokernel.core.config import resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, Candidate, GateResult, Job, Outcome, Stage
from evokernel.core.run import Run
from evokernel.generators.template_search.declared_tunables import declare_tunables
from evokernel.generators.template_search.evidence import parse_decisions
from evokernel.generators.template_search.search import RecordedChoices
from evokernel.generators.template_search.search_space import build_search_space
from evokernel.generators.template_search.simplify import complete_plainly, list_simpler_kernels
from evokernel.memory.bank import Bank
from evokernel.suites.loader import load_tasks
from evokernel.verifier import timing

QUICK_SETTINGS = ("clock=synthetic", "baselines=[]", "workers=1", "protocol=paper")
QUICK = tuple(word for setting in QUICK_SETTINGS for word in ("--set", setting))
SLOW_KERNEL = KERNEL.replace("x[i] * 2 + 1", "x[i] + x[i] + 1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "double.py").write_text(TASK)
    return tmp_path


def rewind(*arguments, code=0):
    result = CliRunner().invoke(command, ["rewind", *map(str, arguments), *QUICK, "--json"], catch_exceptions=False)
    assert result.exit_code == code
    return json.loads(result.stdout)


def synthetic_latency_us(files, backend="cpp"):
    """The invented latency of a kernel, to find one that is slower."""
    (task,) = load_tasks("double.py")
    return timing.make_synthetic_timing(Job(backend=backend, task=task, candidate=Candidate(backend=backend, files=files))).samples_us[0]


def make_reply(code):
    return f"Without the multiplication.\n```cpp kernel.cpp\n{code}```\n"


def slower_variants(count):
    """Kernels that differ from KERNEL by a comment and are slower by the invented clock."""
    fast_us = synthetic_latency_us({"kernel.cpp": KERNEL})
    codes = (f"{SLOW_KERNEL.lstrip()}// {n}\n" for n in range(200))
    slower = (code for code in codes if synthetic_latency_us({"kernel.cpp": code}) > 1.2 * fast_us)
    return [next(slower) for _ in range(count)]


@pytest.fixture(scope="module")
def template_kernel(tmp_path_factory):
    """A task and a kernel of the template search with decisions that are not plain."""
    file = tmp_path_factory.mktemp("ops") / "double.py"
    file.write_text(TASK)
    (task,) = load_tasks(str(file))
    space = build_search_space(task, "cpp")
    choices = parse_decisions("map simd=vec unroll=4 tail=scalar alias=__restrict__ index=int64_t threads=none")
    code = space.render_kernel(complete_plainly(space, RecordedChoices(choices)))
    return task, Candidate(backend="cpp", files={"kernel.cpp": code})


def test_one_decision_at_a_time_is_set_to_its_plain_option(template_kernel):
    task, candidate = template_kernel
    kernels = list_simpler_kernels(task, candidate)
    line = next(line for line in candidate.code.splitlines() if "decisions:" in line)
    for removed, code in kernels:
        option, plain = removed.split()[1], removed.split()[-1]
        assert option in line
        assert plain in next(text for text in code.splitlines() if "decisions:" in text)
    assert len({kernel.code for kernel in kernels} | {candidate.code}) == len(kernels) + 1


def test_kernel_that_templates_do_not_reproduce_has_no_simpler_ones(template_kernel):
    task, candidate = template_kernel
    changed = candidate.model_copy(update={"files": {"kernel.cpp": candidate.code + "\n// edited\n"}})
    assert list_simpler_kernels(task, changed) == []
    assert list_simpler_kernels(task, Candidate(backend="cpp", files={"kernel.cpp": KERNEL})) == []


def store_run(folder, kernel, *settings):
    """A run whose best kernel is the given one."""
    (task,) = load_tasks("double.py")
    config = resolve_config(None, (*QUICK_SETTINGS, *settings), id="r", backend="cpp", memory=str(folder.parent / "bank.db"))
    run = Run.create(folder, config, [task], {})
    outcome = Outcome(gates=(GateResult(gate="time", passed=True),), samples_us=(5.0,))
    run.journal.append(
        Attempt(id=f"{task.id}/0", run="r", task=task.id, round=0, stage=Stage.DRAFT, candidate=kernel, outcome=outcome, reward=1.0)
    )
    return f"r:{task.id}/0"


@pytest.mark.slow(one_in=5)
def test_templates_rewind_the_kernel_of_a_run(here, template_kernel):
    _, candidate = template_kernel
    trace = store_run(here / "run", candidate)
    result = rewind("run", "--out", "rewinding", "--variants", 1)
    assert [row["reason"] for row in result["pairs"]] == [None]
    assert [row["removed"] for row in result["pairs"]] == ["map simd=vec instead of simd=auto"]
    fast, slow = Run.open(here / "rewinding").attempts()
    assert (fast.start_point, slow.start_point, fast.candidate.files) == (None, fast.id, candidate.files)
    worth = slow.outcome.latency_us / fast.outcome.latency_us
    assert [row["item"] is not None for row in result["pairs"]] == [worth > 1.05]
    with Bank.open_reader(here / "bank.db") as bank:
        items = [entry for entry in bank.find_items(kind="practice") if entry.item.task]
    assert [entry.item.id for entry in items] == result["items"]
    assert {(entry.run, entry.item.parent) for entry in items} <= {(result["run"], trace)}
    again = rewind("run", "--out", "rewinding", "--variants", 1)  # everything is in the journal: nothing is verified again
    assert again["pairs"] == result["pairs"]
    assert len(Run.open(here / "rewinding").attempts()) == 2


@pytest.mark.slow(one_in=5)
def test_kernel_with_declared_tunables_is_rewound_with_its_values_and_without_tuning(here, template_kernel):
    task, _ = template_kernel
    choices = parse_decisions("kernel fuse=all | map simd=vec lanes=8 unroll=4 tail=scalar alias=none index=int64_t threads=none")
    space = build_search_space(task, "cpp")
    code = declare_tunables(space, complete_plainly(space, RecordedChoices(choices))).code
    tuned = code.replace("MAP0_LANES = 8;", "MAP0_LANES = 4;")
    assert "MAP0_LANES = 4;  // tune:" in tuned
    store_run(here / "run", Candidate(backend="cpp", files={"kernel.cpp": tuned}), "tuning_trials=2")
    result = rewind("run", "--out", "rewinding")
    removed = {row["removed"] for row in result["pairs"]}
    assert {row["reason"] for row in result["pairs"]} == {None}
    assert {"map simd=vec instead of simd=auto", "map lanes=4 instead of lanes=native"} <= removed
    fast, *slow = Run.open(here / "rewinding").attempts()
    assert fast.candidate.code == tuned
    assert all("tune:" not in attempt.candidate.code for attempt in slow)
    assert all(attempt.outcome.tuning is None for attempt in (fast, *slow))


@pytest.mark.slow(one_in=5)
def test_model_rewinds_a_kernel_from_a_file(here):
    (here / "fast.cpp").write_text(KERNEL)
    (slower,) = slower_variants(1)
    replies = [make_reply("broken(" + slower), make_reply(slower)]
    with ChatServer(lambda request, n: Behaviour(replies[n])) as server:
        model = ("--generator", "llm", "--set", "generator.model=m", "--set", f"generator.base_url={server.base_url}")
        result = rewind("--kernel", "fast.cpp", "--task", "double.py", "--memory", "bank.db", "--variants", 2, "--out", "rw", *model)
    prompts = [request["messages"][0]["content"] for request in server.requests]
    assert "Choose another one than these" not in prompts[0]
    assert "- Without the multiplication." in prompts[1]
    assert [row["reason"] for row in result["pairs"]] == ["compile_error", None]
    assert [row["worth"] is not None for row in result["pairs"]] == [False, True]
    with Bank.open_reader(here / "bank.db") as bank:
        (item,) = (entry.item for entry in bank.find_items(kind="practice") if entry.item.task)
    assert "Without the multiplication." in item.text
    assert labels.estimate_note(["synthetic"]) in item.text
    assert "-    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] + x[i] + 1;" in item.text
    assert (here / "rw" / "calls.jsonl").read_text().count("\n") == 2


def test_bank_without_kernels_and_other_mistakes_are_refused(here):
    Bank.open(here / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r").close()
    with pytest.raises(UserError, match="no correct kernel of backend 'cpp'"):
        rewind("--backend", "cpp", "--memory", "bank.db")
    with pytest.raises(UserError, match="belong together"):
        rewind("--kernel", "fast.cpp")
    (here / "fast.cpp").write_text(KERNEL)
    (here / "empty").mkdir()
    with pytest.raises(UserError, match="generator 'from_files' cannot rewind a kernel"):
        rewind("--kernel", "fast.cpp", "--task", "double.py", "--generator", "from_files", "--set", "generator.folder=empty")
    assert not (here / "runs").exists()
    with pytest.raises(UserError, match=r"no run\.toml"):
        rewind("gone")
