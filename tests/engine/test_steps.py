"""The optional steps of a generator (plan, critic, repair) in the loop: what they send, record and cost, and what survives a failure."""

import json
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from chat_server import Behaviour, ChatServer
from engine_parts import make_engine, make_task

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import SteppedGenerator
from evokernel.core.records import GateResult, Opportunity, Outcome, Profile
from evokernel.core.run import Run
from evokernel.engine.repairs import is_repairable
from evokernel.generators.llm import Llm
from evokernel.generators.replay import Replay
from evokernel.reports import metrics, page, step_table, trajectories

TASKS = [make_task("relu")]
PLANS = """<think>Plan 9: hm</think>
Plan 1: fewer launches
Cause: launch
Gain: 500 us
Change: one launch.

**Plan 2: overlap**
- **Cause:** `no_overlap`
- **Gain:** about 40 us
- **Change:** double buffering.

Plan 3: something else
Cause: magic
Gain: 90 us
Change: hope.
"""
OPPORTUNITIES = (Opportunity(cause="no_overlap", gain_us=30.0, line=3, summary="Copies wait."), Opportunity(cause="launch", gain_us=2.0))


def kernel_reply(text: str) -> str:
    return f'```cpp kernel.cpp\nextern "C" void kernel(const float* x, float* out) {{ /* {text} */ }}\n```\n'


class ScriptedExecutor:
    """Refuses kernels that contain `broken` or `wrong`; the others take 100 us, or 60 us if they are `fast`."""

    def __init__(self) -> None:
        self.verified: list[str] = []

    def submit(self, job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        code = job.candidate.code
        self.verified.append(code)
        if "broken" in code:
            gates = (GateResult(gate="build", passed=False, reason="compile_error", detail="kernel.cpp:1: expected ';'"),)
            future.set_result(Outcome(gates=gates))
        elif "wrong" in code:
            gates = (GateResult(gate="build", passed=True), GateResult(gate="check", passed=False, reason="mismatch", detail="all differ"))
            future.set_result(Outcome(gates=gates))
        else:
            gates = (GateResult(gate="build", passed=True), GateResult(gate="check", passed=True))
            profile = Profile(bottleneck="memory", summary="It waits.", opportunities=OPPORTUNITIES)
            latency = 60.0 if "fast" in code else 100.0
            future.set_result(Outcome(gates=gates, samples_us=(latency,), baseline_us={"eager": (50.0,)}, profile=profile))
        return future

    def close(self) -> None:
        pass


class Script:
    """Answers by the heading of the prompt; kernels in the order of `kernels`."""

    def __init__(self, *kernels: str) -> None:
        self.kernels, self.prompts, self.failing = list(kernels), [], ""

    def __call__(self, request, number) -> Behaviour:
        prompt = request["messages"][-1]["content"]
        kind = {"# Plan": "plan", "# Revi": "critic", "# Corr": "repair"}.get(prompt[:6], "write")
        if kind == self.failing:
            return Behaviour(status=500)
        self.prompts.append((kind, prompt))
        if kind == "plan":
            return Behaviour(PLANS, usage=(10, 1))
        if kind == "critic":
            return Behaviour("**Change:** keep the row in registers.\n\nChange: and another one.", usage=(10, 1))
        return Behaviour(kernel_reply(self.kernels.pop(0)), usage=(100, 10))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.prompts]


@pytest.fixture(autouse=True)
def loopback_needs_no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def serve():
    servers = []

    def start(script) -> str:
        servers.append(ChatServer(script).__enter__())
        return servers[-1].base_url

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def make_llm(url, folder: Path, **settings) -> Llm:
    return Llm(
        "cpp",
        model="m",
        base_url=url,
        retries=0,
        price_in=1.0,
        price_out=1.0,
        ledger=str(folder / "calls.jsonl"),
        context=30000,
        **settings,
    )


def run_steps(url, folder: Path, budget: int = 2, executor=None, **settings):
    """All attempts of a run on one task with an llm generator."""
    engine = make_engine(
        folder, budget=budget, tasks=TASKS, executor=executor or ScriptedExecutor(), generator=make_llm(url, folder, **settings)
    )
    try:
        return list(engine.make_attempts())
    finally:
        engine.close()


def test_without_steps_an_attempt_is_one_call(tmp_path, serve):
    script = Script("first", "fast")
    attempts = run_steps(serve(script), tmp_path)
    assert script.kinds() == ["write", "write"]
    assert [attempt.steps for attempt in attempts] == [(), ()]


def test_most_promising_plan_is_written(tmp_path, serve):
    script = Script("first", "fast")
    draft, refinement = run_steps(serve(script), tmp_path, plan=True)
    assert script.kinds() == ["write", "plan", "write"]  # a draft has no profile to plan from
    assert "`no_overlap`: 30.0 us, line 3: Copies wait." in script.prompts[1][1]
    (plan,) = refinement.steps
    assert (plan.cause, plan.gain_us) == ("no_overlap", 30.0)  # 500 us of `launch` are at most 2 us, and an unlisted cause as little
    assert "double buffering" in plan.text
    assert [text.splitlines()[0] for text in plan.alternatives] == ["Plan 1: fewer launches", "Plan 3: something else"]
    assert "double buffering" in script.prompts[2][1]
    assert "one launch" not in script.prompts[2][1]
    assert (draft.steps, refinement.usage.calls, refinement.usage.input_tokens) == ((), 2, 110)
    assert refinement.usage.cost_usd == pytest.approx((110 + 11) / 1e6)


def test_critic_proposes_exactly_one_change(tmp_path, serve):
    script = Script("wrong", "first", "fast")
    wrong, draft, refinement = run_steps(serve(script), tmp_path, budget=3, critic=True)
    assert script.kinds() == ["write", "critic", "write", "critic", "write"]
    assert "makes the kernel correct" in script.prompts[1][1]
    assert "all differ" in script.prompts[1][1]
    assert "makes the kernel faster" in script.prompts[3][1]
    assert [step.text for step in refinement.steps] == ["keep the row in registers."]
    assert "keep the row in registers." in script.prompts[4][1]
    assert "another one" not in script.prompts[4][1]
    assert (wrong.steps, len(draft.steps)) == ((), 1)


def test_critic_reads_the_plan(tmp_path, serve):
    script = Script("first", "fast")
    run_steps(serve(script), tmp_path, plan=True, critic=True)
    assert script.kinds() == ["write", "plan", "critic", "write"]
    assert "double buffering" in script.prompts[2][1]


def test_repair_answers_a_compile_error_within_the_attempt(tmp_path, serve):
    script, executor = Script("broken", "broken again", "first"), ScriptedExecutor()
    (attempt,) = run_steps(serve(script), tmp_path, budget=1, executor=executor, repair_attempts=2)
    assert script.kinds() == ["write", "repair", "repair"]
    assert "expected ';'" in script.prompts[1][1]
    assert "/* broken */" in script.prompts[1][1]
    assert attempt.outcome.feasible
    assert "first" in attempt.candidate.code
    assert [step.text.splitlines()[1] for step in attempt.steps] == ["kernel.cpp:1: expected ';'"] * 2
    assert len(executor.verified) == 3
    assert (attempt.usage.calls, attempt.usage.input_tokens) == (3, 300)


def test_repairs_are_bounded_and_never_answer_wrong_values(tmp_path, serve):
    script = Script("broken", "broken", "wrong")
    broken, wrong = run_steps(serve(script), tmp_path, repair_attempts=1)
    assert script.kinds() == ["write", "repair", "write"]
    assert (broken.outcome.failure.reason, len(broken.steps)) == ("compile_error", 1)
    assert (wrong.outcome.failure.reason, wrong.steps) == ("mismatch", ())


@pytest.mark.parametrize(
    ("gate", "reason", "expected"),
    [
        ("write", "no_code", True),
        ("write", "duplicate", False),
        ("screen", "forbidden", True),
        ("screen", "revoked", False),
        ("build", "build_timeout", True),
        ("check", "queue", True),
        ("check", "mismatch", False),
        ("sanitize", "out_of_bounds", False),
    ],
)
def test_only_errors_of_form_are_repaired(gate, reason, expected):
    assert is_repairable(Outcome(gates=(GateResult(gate=gate, passed=False, reason=reason),))) is expected


def test_calls_are_in_the_ledger_with_their_step_and_count_against_the_budget(tmp_path, serve):
    script = Script("broken", "first", "fast", "never")
    attempts = run_steps(serve(script), tmp_path, budget=4, plan=True, critic=True, repair_attempts=1, budget_tokens=350)
    rows = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    keys = ["t/relu/0", "t/relu/0/repair-1", "t/relu/1/plan", "t/relu/1/critic", "t/relu/1"]
    assert [row["key"] for row in rows] == keys
    assert len(attempts) == 2
    assert sum(attempt.usage.input_tokens for attempt in attempts) == sum(row["input_tokens"] for row in rows)
    assert sum(attempt.usage.cost_usd for attempt in attempts) == pytest.approx(sum(row["cost_usd"] for row in rows))


@pytest.mark.parametrize("step", ["plan", "critic", "write", "repair"])
def test_dead_endpoint_in_a_step_loses_no_attempt_and_repeats_no_paid_call(tmp_path, serve, step):
    settings = {"plan": True, "critic": True, "repair_attempts": 1}
    kernels = ("first", "broken", "fast")
    straight = run_steps(serve(Script(*kernels)), tmp_path / "straight", **settings)
    script = Script(*kernels)
    url = serve(script)
    run_steps(url, tmp_path / "cut", budget=1, **settings)
    script.failing = step
    with pytest.raises(InfraError):
        run_steps(url, tmp_path / "cut", **settings)
    assert len(Run.open(tmp_path / "cut").attempts()) == 1
    script.failing = ""
    resumed = run_steps(url, tmp_path / "cut", **settings)
    assert script.kinds() == ["write", "plan", "critic", "write", "repair"]
    ignored = {"round": 0, "usage": None}
    assert [strip_seconds(one, ignored) for one in resumed] == [strip_seconds(one, ignored) for one in straight]


def strip_seconds(attempt, update):
    """The attempt without durations and rounds, which a failure changes; its calls and tokens stay."""
    usage = (attempt.usage.calls, attempt.usage.input_tokens, attempt.usage.output_tokens)
    steps = tuple(step.model_copy(update={"usage": step.usage.model_copy(update={"seconds": 0.0})}) for step in attempt.steps)
    candidate = attempt.candidate.model_copy(update={"usage": attempt.candidate.usage.model_copy(update={"seconds": 0.0})})
    return usage, attempt.model_copy(update={**update, "steps": steps, "candidate": candidate})


def test_stored_step_keeps_its_context(tmp_path, serve):
    """A failure after the plan must not combine the plan with another start point that the policy would choose later."""
    script = Script("first", "fast", "other")
    url, settings = serve(script), {"plan": True}
    run_steps(url, tmp_path, budget=1, **settings)
    script.failing = "write"
    with pytest.raises(InfraError):
        run_steps(url, tmp_path, **settings)
    assert (Run.open(tmp_path).artifact_folder("t/relu/1") / "context.json").exists()


def test_replay_gives_equal_rewards_and_keeps_plans(tmp_path, serve):
    settings = {"plan": True, "critic": True, "repair_attempts": 1}
    original = run_steps(serve(Script("broken", "first", "fast")), tmp_path / "a", **settings)
    replay = Replay("cpp", str(tmp_path / "a"))
    assert isinstance(replay, SteppedGenerator)
    engine = make_engine(tmp_path / "b", budget=2, tasks=TASKS, executor=ScriptedExecutor(), generator=replay)
    again = list(engine.make_attempts())
    engine.close()
    assert [attempt.reward for attempt in again] == [attempt.reward for attempt in original]
    assert [step.text for step in again[1].steps] == [step.text for step in original[1].steps]
    assert again[1].usage.calls == 0


def test_plan_without_figures_is_still_carried_out(tmp_path, serve):
    script = Script("first", "fast")

    def answer(request, number):
        is_plan = request["messages"][-1]["content"].startswith("# Plan")
        return Behaviour("Use wider vectors.") if is_plan else script(request, number)

    _, refinement = run_steps(serve(answer), tmp_path, plan=True)
    (plan,) = refinement.steps
    assert (plan.text, plan.cause, plan.gain_us) == ("Use wider vectors.", "", None)
    assert "Use wider vectors." in script.prompts[-1][1]


def test_reports_show_steps(tmp_path, serve):
    run_steps(serve(Script("broken", "first", "fast")), tmp_path, plan=True, repair_attempts=1)
    run = Run.open(tmp_path)
    results = metrics.collect_results(run, run.attempts())
    rows = {row[0]: row[1:] for row in step_table.steps_table(results).rows}
    assert rows["plan"] == (1, 1, 1, 30.0, 40.0, 1, "$0.0000")
    assert rows["repair"][:3] == (1, 1, 1)
    assert "plan (no_overlap, predicted gain 30.0 µs): **Plan 2: overlap**" in page.outcome_line(run.attempts()[1])
    (row,) = [row for row in trajectories.attempt_rows(run) if row["attempt"] == "t/relu/1"]
    assert row["steps"][0]["cause"] == "no_overlap"


ANSWER = f"""import os, sys
key = os.environ["EVOKERNEL_ATTEMPT"]
sys.stdin.read()
print({PLANS!r} if key.endswith("plan") else {kernel_reply("fast")!r} if key.endswith("1") else {kernel_reply("broken")!r})
"""


def run_generator(folder: Path, generator):
    """Two attempts on one task."""
    engine = make_engine(folder, budget=2, tasks=TASKS, executor=ScriptedExecutor(), generator=generator)
    attempts = list(engine.make_attempts())
    engine.close()
    return attempts


def test_program_takes_the_same_steps(tmp_path):
    (tmp_path / "answer.py").write_text(ANSWER)
    words = [sys.executable, str(tmp_path / "answer.py")]
    first, second = run_generator(
        tmp_path / "run", make_plugin("generator", "command", backend="cpp", command=words, plan=True, repair_attempts=1)
    )
    assert (first.outcome.feasible, [step.name for step in first.steps], first.usage.calls) == (True, ["repair"], 2)
    assert ([step.name for step in second.steps], second.usage.calls) == (["plan"], 2)


def test_file_exchange_takes_the_same_steps(tmp_path):
    class Person(threading.Event):
        """Answers every open prompt instead of waiting."""

        def wait(self, timeout=None):
            for prompt in tmp_path.glob("*.prompt.md"):
                reply = prompt.with_name(prompt.name.replace(".prompt.", ".reply."))
                if not reply.exists():
                    reply.write_text("Change: less." if "critic" in prompt.name else kernel_reply("fast"))
            return False

    exchange = make_plugin("generator", "file_exchange", backend="cpp", folder=str(tmp_path), critic=True)
    exchange.stop = Person()
    _, second = run_generator(tmp_path / "run", exchange)
    assert [step.text for step in second.steps] == ["less."]
    assert (tmp_path / "t--relu--1--critic.prompt.md").read_text().startswith("# Review a kernel")


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="repair_attempts must be between 0 and 10, not 11"):
        make_plugin("generator", "command", backend="cpp", command="cat", repair_attempts=11)
