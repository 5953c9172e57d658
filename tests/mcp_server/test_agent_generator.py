"""The generator `agent` in a run: journal, credit, resume and replay, and agents that crash, hang, stay silent or exceed their budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp_clients import GOOD, TASK_FILE, WRONG

from evokernel.app.factory import create_engine, resume_engine
from evokernel.cli.experiment import command as experiment_command
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, GateResult, Outcome, Stage
from evokernel.core.run import Run, redact_revoked
from evokernel.experiments import spec
from evokernel.memory.bank import Bank
from evokernel.reports import metrics, round_stats, tool_table

AGENT = Path(__file__).parent / "scripted_agent.py"


def agent_settings(folder: Path, mode: str, **generator: Any) -> dict[str, Any]:
    """Settings of a run whose agent does what `mode` says."""
    command = [sys.executable, str(AGENT), mode, "{config}"]
    return {
        "id": "run",
        "tasks": str(TASK_FILE),
        "backend": {"name": "cpp"},
        "clock": "synthetic",
        "workers": 1,
        "memory": str(folder / "bank.db"),
        "generator": {"name": "agent", "command": command, **generator},
    }


def make_attempts(folder: Path, mode: str, budget: int = 1, **generator: Any) -> list[Attempt]:
    """Run an agent and return the attempts of its run."""
    engine = create_engine(resolve_config(None, base=agent_settings(folder, mode, **generator), budget=budget), folder / "run")
    try:
        return list(engine.make_attempts())
    finally:
        engine.close()


def bank_values(folder: Path) -> dict[tuple[str, str, str], tuple[float, int]]:
    with Bank.open_reader(folder / "bank.db") as bank:
        return {(value.item, value.stage, value.scope): (value.q, value.visits) for value in bank.list_values(scope=None)}


@pytest.fixture(autouse=True)
def agent_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYTHONPATH", str(AGENT.parent))


def test_an_agent_verifies_twice_and_submits(tmp_path: Path) -> None:
    attempts = make_attempts(tmp_path, "work", budget=2)
    notes = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    assert [attempt.outcome.feasible for attempt in attempts] == [True, True]
    for attempt, note in zip(attempts, notes, strict=True):
        assert attempt.candidate.id == note["submitted"]
        assert attempt.tool_use
        assert attempt.tool_use.is_submitted
        assert (attempt.tool_use.calls, attempt.tool_use.ending) == (6, "ended")
        trials = attempt.tool_use.trials
        assert [trial.outcome.feasible for trial in trials if trial.outcome] == [False, True]
        assert trials[0].candidate.code == WRONG
        assert trials[1].candidate.id == attempt.candidate.id
        assert [ref.id for ref in attempt.shown_items] == [note["opened"]], "what it opened, and not what the policy chose"
        assert note["opened"] not in {ref.id for ref in attempt.truncated_items}
    assert list(Run.open(tmp_path / "run").attempts()) == attempts
    check_reports(tmp_path, attempts)
    check_credit(tmp_path, attempts)
    check_resume_and_replay(tmp_path, attempts)
    assert (GOOD[:40] in trials[1].candidate.code, GOOD[:40] in json.dumps(redact_revoked(attempts[0]).model_dump())) == (True, False)


def check_reports(folder: Path, attempts: list[Attempt]) -> None:
    """Reports count what the agent tried, and its verifications."""
    results = metrics.collect_results(Run.open(folder / "run"), attempts)
    assert tool_table.tool_table(results).rows == ((2, 12, 4, 2, 2, 0),)
    use = attempts[0].tool_use
    assert use
    lines = tool_table.describe_trials(use)
    assert "failed at gate check (mismatch)" in lines[0]
    assert "correct, " in lines[1]
    trial = use.trials[0].model_copy(update={"outcome": Outcome(gates=(GateResult(gate="build", passed=True, seconds=2.0),))})
    slow = attempts[0].model_copy(update={"tool_use": use.model_copy(update={"trials": (trial,)})})
    assert round_stats.verification_s(slow) == 2.0


def check_credit(folder: Path, attempts: list[Attempt]) -> None:
    """Opened items learn from the reward, and the start point; nothing else does."""
    first, second = attempts
    assert (first.stage, second.stage) == (Stage.DRAFT, Stage.REFINE)
    credited = {(item, stage) for item, stage, _ in bank_values(folder)}
    expected = {(ref.id, attempt.stage.value) for attempt in attempts for ref in attempt.shown_items if ref.role != "api"}
    assert credited == expected | {(f"run:{first.id}", "refine")}
    assert bank_values(folder)[first.shown_items[0].id, "draft", ""][0] > 0


def check_resume_and_replay(folder: Path, attempts: list[Attempt]) -> None:
    """A run that lost its last attempt after the reply was stored makes the same one without the agent; a replay gives equal values."""
    values = bank_values(folder)
    journal = folder / "run" / "attempts.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(lines[0])
    notes = (folder / "notes").read_text()
    engine = resume_engine(folder / "run")
    resumed = list(engine.make_attempts())
    engine.close()
    assert (folder / "notes").read_text() == notes, "the agent was not started again"
    assert [one.model_dump(exclude={"outcome"}) for one in resumed] == [one.model_dump(exclude={"outcome"}) for one in attempts]
    assert bank_values(folder) == values
    settings = agent_settings(folder, "work") | {"memory": str(folder / "replayed" / "bank.db")}
    settings["generator"] = {"name": "replay", "journal": str(folder / "run")}
    engine = create_engine(resolve_config(None, base=settings, budget=2), folder / "replayed" / "run")
    replayed = list(engine.make_attempts())
    engine.close()
    assert [one.shown_items for one in replayed] == [one.shown_items for one in attempts]
    assert [one.tool_use for one in replayed] == [one.tool_use for one in attempts]
    assert bank_values(folder / "replayed") == values


@pytest.mark.slow(one_in=4)
def test_a_killed_run_starts_the_agent_again(tmp_path: Path) -> None:
    """Without a stored reply, a resumed run makes the attempt anew, and the agent of the killed run does not survive it."""
    program = f"""
import sys
sys.path.insert(0, {str(AGENT.parent)!r})
from pathlib import Path
from test_agent_generator import make_attempts
make_attempts(Path({str(tmp_path)!r}), "hang", seconds=300)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    child = wait_for_text(tmp_path / "notes")
    agent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    process.kill()
    process.wait()
    wait_until_gone(agent)
    os.kill(int(child), 9)
    command = json.dumps([sys.executable, str(AGENT), "verify_only", "{config}"])
    engine = resume_engine(tmp_path / "run", [f"generator.command={command}"])
    (attempt,) = engine.make_attempts()
    engine.close()
    assert attempt.candidate.code == GOOD, "the fastest correct kernel, since nothing was submitted"
    assert attempt.tool_use
    assert not attempt.tool_use.is_submitted
    assert [bool(trial.outcome and trial.outcome.feasible) for trial in attempt.tool_use.trials] == [True, False]


@pytest.mark.slow(one_in=4)
def test_an_agent_that_exceeds_its_budget_is_refused_and_can_still_submit(tmp_path: Path) -> None:
    (attempt,) = make_attempts(tmp_path, "exceed", verifications=1)
    assert attempt.candidate.code == GOOD
    assert attempt.outcome.feasible
    assert attempt.tool_use
    assert len(attempt.tool_use.trials) == 1
    log = (tmp_path / "run" / "artifacts" / attempt.id / "reply.md").read_text()
    assert "refused, the budget of 1 verifications is spent" in log


def test_an_agent_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    (attempt,) = make_attempts(tmp_path, "hang", seconds=9, grace_s=1)
    assert attempt.outcome.failure
    assert attempt.outcome.failure.reason == "no_code"
    assert "was killed after 10 s without a correct kernel" in attempt.outcome.failure.detail
    wait_until_gone(int((tmp_path / "notes").read_text()))


def test_an_agent_that_dies_before_it_did_anything_costs_no_attempt(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="failed with exit code 1; stderr: no key for the model"):
        make_attempts(tmp_path, "crash")
    assert Run.open(tmp_path / "run").attempts() == []


@pytest.mark.slow(one_in=4)
def test_an_agent_that_dies_late_keeps_its_kernel(tmp_path: Path) -> None:
    (attempt,) = make_attempts(tmp_path, "crash_late")
    assert attempt.candidate.code == GOOD
    assert attempt.tool_use
    assert attempt.tool_use.ending.startswith("failed with exit code 7")


def test_a_silent_agent_gives_no_code_and_no_credit(tmp_path: Path) -> None:
    (attempt,) = make_attempts(tmp_path, "silent")
    assert attempt.outcome.failure
    assert attempt.outcome.failure.reason == "no_code"
    assert (attempt.shown_items, attempt.reward) == ((), -1.0)
    assert attempt.tool_use
    assert attempt.tool_use.trials == ()
    assert bank_values(tmp_path) == {}
    assert attempt.usage.input_tokens is None, "an agent does not report its tokens"


AGENT_ARMS = {"agent-tools": "work_without_memory", "agent-memory": "work"}
"""The arms of table 2 with this generator, and what the scripted agent does in them."""


def table2_settings(folder: Path) -> list[str]:
    """Settings that shrink table 2 to one attempt on one operator, with the scripted agent."""
    (folder / "reply.md").write_text(f"```cpp\n{GOOD}```\n")
    commands = {arm: json.dumps([sys.executable, str(AGENT), mode, "{config}"]) for arm, mode in AGENT_ARMS.items()}
    commands["agent"] = f"cat {folder / 'reply.md'}"
    arms = [setting for arm, words in commands.items() for setting in (f"arms.{arm}.generator.command={words}", f"arms.{arm}.budget=1")]
    groups = [f"groups.{group}={TASK_FILE}" for group in ("L1", "L2")]
    return [*groups, *arms, "backend=cpp", "clock=synthetic", "workers=1", "seeds=1"]


def test_table_2_plans_agents_with_and_without_memory(tmp_path: Path) -> None:
    plan = spec.read_spec("table2", table2_settings(tmp_path))
    spec.check_settings(plan)
    plan, excluded = spec.with_arms(plan, plan.arms)
    assert excluded == {}
    assert {("value", "agent-tools"), ("agent-memory", "agent-tools")} <= set(plan.compare)
    configs = {arm.name: plan.run_config(arm.settings) for arm in plan.arms}
    for name, policy, has_memory in (("agent-tools", "refine", False), ("agent-memory", "value", True)):
        assert (configs[name].plugin_name("generator"), configs[name].plugin_name("policy")) == ("agent", policy)
        assert make_plugin("generator", "agent", backend="cpp", **configs[name].plugin_settings("generator")).memory == has_memory
    whole = spec.read_spec("table2")
    for arm in whole.arms:
        settings = whole.run_config(arm.settings)
        trials = int(settings.plugin_settings("generator").get("verifications", 0)) if arm.name in AGENT_ARMS else 0
        assert settings.budget * (trials + 1) == 30, "every arm verifies as many kernels"


@pytest.mark.slow
def test_table_2_compares_agents(tmp_path: Path) -> None:
    """Every agent has a row in the table; the journal of each arm says which memory items its agent opened."""
    arms = ["agent", *AGENT_ARMS]
    flags = [text for setting in table2_settings(tmp_path) for text in ("--set", setting)]
    result = CliRunner().invoke(experiment_command, ["table2", *flags, "--arms", ",".join(arms), "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output + str(result.exception)
    report = json.loads(result.stdout)
    for figures in report["groups"].values():
        assert {arm: figures["arms"][arm]["Acc"]["mean"] for arm in arms} == dict.fromkeys(arms, 1.0)
    text = (tmp_path / "out" / "experiment.md").read_text()
    assert all(f"| {arm} |" in text for arm in arms)
    attempts = {arm: Run.open(tmp_path / "out" / f"{arm}-0").attempts()[0] for arm in arms}
    assert attempts["agent"].tool_use is None
    assert {arm: len(attempts[arm].tool_use.trials) for arm in AGENT_ARMS if attempts[arm].tool_use} == dict.fromkeys(AGENT_ARMS, 2)
    assert attempts["agent-tools"].shown_items == ()
    assert len(attempts["agent-memory"].shown_items) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": ""}, "set generator.command"),
        ({"command": "true", "seconds": 0}, "seconds must be above 0"),
        ({"command": "true", "cwd": "/nowhere"}, "folder /nowhere does not exist"),
    ],
)
def test_wrong_settings_get_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_plugin("generator", "agent", backend="cpp", **settings)


def wait_for_text(path: Path) -> str:
    for _ in range(600):
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.1)
    raise AssertionError(f"nothing was written to {path}")


def wait_until_gone(process: int) -> None:
    for _ in range(100):
        stat = Path(f"/proc/{process}/stat")
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process} is still running")
