"""`evokernel mcp` with the SDK's own client: every tool over both transports, budgets, and mistakes of the agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from mcp.shared.memory import create_connected_server_and_client_session
from mcp_clients import GOOD, PROGRAM, TASK_FILE, WRONG, Client, http_server, stdio_server
from repository import ROOT

import evokernel
from evokernel.app.verification_pool import VerificationPool
from evokernel.cli.mcp import command
from evokernel.cli.memory import command as memory_command
from evokernel.core.agent_tools import BudgetExceeded, CallBudget
from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem
from evokernel.mcp_server.local_session import LocalSession
from evokernel.mcp_server.server import build_server, call_tool
from evokernel.memory.bank import Bank
from evokernel.memory.distill import QUARANTINED_REASONS

TASK = "starter/scale_shift"


SCALE_SHIFT = """extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape,
                       const float* shift, const int64_t* shift_shape, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    for (int64_t i = 0; i < rows * width; ++i) out[i] = x[i] * scale[i % width] + shift[i % width];
}
"""
"""A correct kernel for `TASK`."""


async def use_every_tool(client: Client, task: str, correct: str, incorrect: str) -> str:
    """What an agent does: read the task, fail, look into memory, verify, read the profile, submit. Returns the id of the kernel."""
    listed = await client.call("list_tasks", spec="starter")
    assert {row["id"] for row in listed.data["tasks"]} > {TASK, "starter/softmax"}
    shown = await client.call("show_task", task=task, cards=True)
    assert "## The entry point" in shown.text
    assert "held_out" not in shown.data["sizes"]
    assert "cpp/entry-point" in {card["id"] for card in shown.data["cards"]}
    hits = await client.call("search_memory", query="vectorise a loop over rows", kinds=["practice", "api"], limit=3)
    assert len(hits.data["hits"]) == 3
    item = await client.call("show_item", id=hits.data["hits"][0]["id"])
    assert item.data["title"] in item.text
    wrong = await client.call("verify", task=task, kernel=incorrect)
    assert (wrong.is_error, wrong.data["feasible"], wrong.data["reason"]) == (False, False, "mismatch")
    assert "gate check: failed (mismatch)" in wrong.text
    good = await client.call("verify", task=task, files={"kernel.cpp": correct})
    assert good.data["feasible"], good.text
    assert good.data["latency_us"] > 0
    assert "outcome" not in good.data, "samples are left out"
    profile = await client.call("profile")
    assert profile.data["candidate"] == good.data["candidate"]
    assert profile.data["bottleneck"] in profile.text
    assert profile.data["latency_us"] == good.data["latency_us"]
    failed_profile = await client.call("profile", candidate=wrong.data["candidate"])
    assert "has no profile, because it was not timed" in failed_profile.text
    submitted = await client.call("submit", candidate=good.data["candidate"])
    assert (submitted.is_error, submitted.data["feasible"]) == (False, True), submitted.text
    return str(good.data["candidate"])


def test_every_tool_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(TASK_FILE.read_text() + "\nprint('a reference that prints')\n")

    async def drive() -> str:
        async with stdio_server(tmp_path) as client:
            kernel = await use_every_tool(client, "noisy.py", GOOD, WRONG)
            status = await client.call("budget")
            assert status.data["verifications"] == 2
            assert (status.data["calls"], status.data["max_calls"]) == (8, None)
            return kernel

    check_submission(tmp_path / "submissions", asyncio.run(drive()), GOOD)


def check_submission(out: Path, kernel: str, text: str) -> None:
    """The only submission is this kernel, with the outcome of its verification."""
    (folder,) = (path.parent for path in out.rglob("outcome.json"))
    assert {path.name for path in folder.iterdir()} == {"kernel.cpp", "outcome.json"}
    assert (folder / "kernel.cpp").read_text() == text
    record = json.loads((folder / "outcome.json").read_text())
    assert (record["candidate"], record["feasible"]) == (kernel, True)


@pytest.mark.slow(one_in=2)
def test_every_tool_over_http_without_paths_of_the_server(tmp_path: Path) -> None:
    async def drive() -> str:
        async with http_server(tmp_path, "--out", "handed-in") as client:
            refused = await client.call("show_task", task=str(TASK_FILE))
            assert refused.is_error
            assert "only tasks of its suites" in refused.text
            stolen = await client.call("verify", task=TASK, kernel="/etc/hostname")
            assert stolen.data["reason"] in ("symbol", "compile_error"), "a path is the text of a kernel and is never opened"
            kernel = await use_every_tool(client, TASK, SCALE_SHIFT, SCALE_SHIFT.replace("+ shift", "- shift"))
            assert (await client.call("list_tasks")).data["total"] > 300
            status = await client.call("budget")
            assert (status.data["calls"], status.data["verifications"]) == (11, 3)
            return kernel

    check_submission(tmp_path / "handed-in", asyncio.run(drive()), SCALE_SHIFT)


def test_a_spent_budget_is_an_answer_and_the_server_goes_on(tmp_path: Path) -> None:
    async def drive() -> None:
        async with stdio_server(tmp_path, "--verifications", "1", "--calls", "3") as client:
            first = await client.call("verify", task=TASK, kernel="int x;")
            assert not first.is_error
            second = await client.call("verify", task=TASK, kernel=WRONG)
            assert second.is_error
            assert second.data == {"error": second.text}
            assert "budget of 1 verifications is spent" in second.text
            unverified = await client.call("submit", task=TASK, kernel=WRONG)
            assert "budget of 1 verifications is spent" in unverified.text
            assert not (await client.call("profile")).is_error
            assert not (await client.call("search_memory", query="x")).is_error
            refused = await client.call("search_memory", query="x")
            assert refused.is_error
            assert "budget of 3 calls is spent" in refused.text
            assert (await client.call("budget")).text.startswith("3 of 3 calls, 1 of 1 verifications")
            assert "is not correct" in (await client.call("submit", candidate=first.data["candidate"])).text

    asyncio.run(drive())


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("show_task", {"task": "starter/nope"}, "has no task 'nope'"),
        ("show_task", {}, "name a task"),
        ("show_task", {"task": TASK, "backend": "cppp"}, "did you mean 'cpp'"),
        ("verify", {"task": TASK}, "give either 'kernel'"),
        ("verify", {"task": TASK, "kernel": "x", "files": {"a": "b"}}, "give either 'kernel'"),
        ("verify", {"task": TASK, "files": {"main.py": "x"}}, "takes kernel.cpp"),
        ("profile", {}, "no kernel was verified yet"),
        ("show_item", {"id": "cpp/nope"}, "there is no memory item"),
        ("submit", {"candidate": "0123"}, "no kernel was verified yet"),
        ("nope", {}, "there is no tool 'nope'"),
    ],
)
def test_mistakes_of_the_agent_are_answers_that_name_the_fix(tool: str, arguments: dict[str, str], message: str, tmp_path: Path) -> None:
    with VerificationPool(1, {"clock": "synthetic"}) as pool:
        session = LocalSession(pool, CallBudget(), backend="cpp", memory=tmp_path / "none.db", out=tmp_path)
        answer = call_tool(session, tool, arguments)
    assert answer.is_error
    assert message in answer.text


def test_memory_of_a_bank_without_revoked_code(tmp_path: Path) -> None:
    fields = {"kind": "trace", "backend": "cpp", "text": "", "task": "t/relu", "key": "relu of a vector"}
    items = [
        MemoryItem(id="run:t/relu/0", title="a correct kernel", code="good code", feasible=True, speedup=2.0, **fields),
        MemoryItem(id="run:t/relu/1", title="a cheat", code="secret cheat", feasible=False, reason=min(QUARANTINED_REASONS), **fields),
    ]
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="run") as bank:
        bank.add(items)

    async def drive() -> None:
        async with stdio_server(tmp_path, "--memory", "bank.db") as client:
            hits = await client.call("search_memory", query="relu of a vector")
            assert hits.data["hits"][0]["id"] == "run:t/relu/0"
            assert "good code" in (await client.call("show_item", id="run:t/relu/0")).text
            for answer in [hits, await client.call("show_item", id="run:t/relu/1")]:
                assert "secret cheat" not in answer.text

    asyncio.run(drive())


def make_empty_bank(path: Path) -> None:
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="run"):
        pass


def test_an_empty_bank_is_like_none_for_agents_and_said_to_be_empty_on_the_command_line(tmp_path: Path) -> None:
    make_empty_bank(tmp_path / "bank.db")
    (tmp_path / "file.db").touch()
    with VerificationPool(1, {"clock": "synthetic"}) as pool:
        sessions = [LocalSession(pool, CallBudget(), backend="cpp", memory=tmp_path / name) for name in ("bank.db", "none.db", "file.db")]
        empty, absent, file = (call_tool(session, "search_memory", {"query": "online softmax"}) for session in sessions)
        missing = call_tool(sessions[0], "show_item", {"id": "cpp/nope"})
    assert empty.text == absent.text == file.text
    assert "cpp/" in empty.text
    assert "the tool 'search_memory'" in missing.text
    printed = CliRunner().invoke(memory_command, ["search", "softmax", "--memory", str(tmp_path / "bank.db")])
    assert "is empty" in printed.stdout
    of_file = CliRunner().invoke(memory_command, ["search", "softmax", "--memory", str(tmp_path / "file.db")])
    assert "is empty" in str(of_file.exception)


def test_mistakes_cost_no_verification_and_a_verified_text_is_submitted_free(tmp_path: Path) -> None:
    task = str(TASK_FILE)
    with VerificationPool(1, {"clock": "synthetic"}) as pool:
        session = LocalSession(pool, CallBudget(verifications=1), backend="cpp", memory=tmp_path / "none.db", out=tmp_path)
        for mistake in ({"task": task}, {"task": task, "kernel": GOOD, "backend": "cppp"}, {"task": "starter/sofmax", "kernel": GOOD}):
            assert call_tool(session, "verify", mistake).is_error
        assert (session.budget.status().calls, session.budget.status().verifications) == (3, 0)
        verified = call_tool(session, "verify", {"task": task, "kernel": GOOD})
        assert verified.data["feasible"], verified.text
        refused = call_tool(session, "submit", {"task": task, "kernel": WRONG})
        submitted = call_tool(session, "submit", {"task": task, "kernel": GOOD})
    assert "candidate=ID" in refused.text
    assert (submitted.is_error, submitted.data["candidate"]) == (False, verified.data["candidate"]), submitted.text
    assert session.budget.status().verifications == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("list_tasks", {"suite": "startr"}, "the tool 'list_tasks' has no argument 'suite'. Its arguments: spec."),
        ("profile", {"task": TASK, "kernel": "x"}, "has no argument 'kernel', 'task'. Its arguments: candidate."),
        ("budget", {"x": 1}, "Its arguments: none."),
        ("search_memory", {}, "query: Field required"),
    ],
)
def test_wrong_arguments_are_refused_with_those_of_the_tool(tool: str, arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    async def drive() -> None:
        async with create_connected_server_and_client_session(build_server(UnusedSession())._mcp_server) as session:
            schemas = {one.name: one.inputSchema for one in (await session.list_tools()).tools}
            assert schemas[tool]["additionalProperties"] is False
            assert (await session.initialize()).serverInfo.version == evokernel.__version__
            answer = await Client(session).call(tool, **arguments)
            assert answer.is_error
            assert message in answer.text
            assert answer.data == {"error": answer.text}

    asyncio.run(drive())


class UnusedSession:
    """A session that no call with wrong arguments may reach."""

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        raise AssertionError(tool)


def test_the_page_names_every_argument() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text()
    for tool, names in build_server(UnusedSession()).arguments.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{tool}` |"))
        assert [name for name in names if f"`{name}`" not in row] == [], tool


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backend", "cppp"], "did you mean 'cpp'"),
        (["--memory", "nowhere.db"], "there is no memory bank at nowhere.db"),
        (["--set", "timeout=3"], "timeout"),
    ],
)
def test_options_are_checked_before_the_configuration_is_printed(options: list[str], message: str) -> None:
    result = CliRunner().invoke(command, [*options, "--json"])
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_http_without_the_token_is_refused(tmp_path: Path) -> None:
    process = subprocess.Popen([*PROGRAM, "--http", "--port", "0", "--token", "abc"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        address = process.stderr.readline().split(" at ")[1].split()[0]
        for headers in ({}, {"Authorization": "Bearer abd"}):
            assert httpx.post(address, json={}, headers=headers).status_code == 401
    finally:
        process.terminate()
        process.wait(30)


def test_seconds_are_counted_from_the_start() -> None:
    now = [0.0]
    budget = CallBudget(seconds=10, clock=lambda: now[0])
    budget.spend("verify")
    budget.spend_verification()
    now[0] = 10.0
    with pytest.raises(BudgetExceeded, match="10 seconds"):
        budget.spend("show_item")
    budget.spend("submit")
    assert (budget.status().calls, budget.status().verifications, budget.status().seconds) == (1, 1, 10.0)


def test_the_configuration_for_hosts_starts_the_server(tmp_path: Path) -> None:
    bank = tmp_path / "bank.db"
    make_empty_bank(bank)
    options = ["--backend", "cpp", "--memory", str(bank), "--calls", "1", "--set", "clock=synthetic", "--json"]
    printed = CliRunner().invoke(command, options)
    entry = json.loads(printed.stdout)["mcpServers"]["evokernel"]
    assert str(bank) in entry["args"]

    async def drive() -> None:
        async with stdio_server(tmp_path, program=[entry["command"], *entry["args"]]) as client:
            assert (await client.call("budget")).data["max_calls"] == 1

    asyncio.run(drive())


def test_a_missing_package_and_a_session_that_ended_get_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = CliRunner().invoke(command, ["--connect", str(tmp_path)])
    assert "the session has ended" in str(ended.exception)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = CliRunner().invoke(command, [])
    assert "pip install 'evokernel[mcp]'" in str(missing.exception)
