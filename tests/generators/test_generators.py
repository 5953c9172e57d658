"""The shipped generators with files, programs and services that work and that fail."""

import os
import shlex
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path

import pytest
from chat_server import Behaviour, ChatServer
from prompt_cases import DRAFTING, EMPTY, IMPROVE, PLAIN, REFINING, TASK, attempt
from time_limits import HANG_S, growing_limits, wait_until

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.journal import Journal
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Usage
from evokernel.core.state import State
from evokernel.generators.command import Command
from evokernel.generators.file_exchange import FileExchange
from evokernel.generators.from_files import FromFiles
from evokernel.generators.llm import Llm
from evokernel.generators.replay import Replay
from evokernel.llm.settings import ChatSettings

FRESH = State(task=TASK)
REPLY = f"Plain loop.\n```cpp kernel.cpp\n{PLAIN}```\n"


@pytest.fixture(autouse=True)
def loopback_needs_no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


# from_files


def test_from_files_returns_entries_in_order_and_then_the_last(tmp_path):
    folder = tmp_path / "scaled_relu"
    folder.mkdir()
    (folder / "1-first.cpp").write_text("first")
    (folder / ".hidden").write_text("no")
    (folder / "2-second").mkdir()
    (folder / "2-second" / "kernel.cpp").write_text("second")
    (folder / "2-second" / "tile.h").write_text("tile")
    generator = FromFiles("cpp", str(tmp_path))
    first, second, third = (generator.write(State(task=TASK, attempts=REFINING.attempts[:n]), EMPTY).candidate for n in (0, 1, 5))
    assert first.files == {"kernel.cpp": "first"}
    assert first.notes == "1-first.cpp"
    assert second.files == third.files == {"kernel.cpp": "second", "tile.h": "tile"}
    assert generator.lesson(FRESH, first, REFINING.attempts[0].outcome) is None


def test_from_files_without_entries_gives_an_empty_candidate(tmp_path):
    candidate = FromFiles("cpp", str(tmp_path)).write(FRESH, EMPTY).candidate
    assert candidate.files == {}
    assert "no candidate for this task" in candidate.notes


def test_from_files_requires_a_folder_with_text_files(tmp_path):
    with pytest.raises(UserError, match=r"generator\.folder"):
        FromFiles("cpp", str(tmp_path / "gone"))
    (tmp_path / "scaled_relu").mkdir()
    (tmp_path / "scaled_relu" / "1.cpp").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="text file"):
        FromFiles("cpp", str(tmp_path)).write(FRESH, EMPTY)


# replay


@pytest.fixture
def recording(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(attempt(0, notes="as written").model_copy(update={"usage": Usage(model="m", calls=1, cost_usd=1.0)}))
    journal.append(attempt(1, lesson="one pass"))
    return tmp_path


@pytest.mark.parametrize("name", ["", "attempts.jsonl"])
def test_replay_returns_attempts_by_id_without_usage(recording, name):
    replay = Replay("cpp", str(recording / name))
    first = replay.write(FRESH, EMPTY).candidate
    assert (first.files, first.notes, first.usage) == ({"kernel.cpp": PLAIN}, "as written", Usage())
    assert replay.lesson(FRESH, first, REFINING.attempts[3].outcome) is None
    later = State(task=TASK, attempts=REFINING.attempts[:1])
    assert replay.lesson(later, first, REFINING.attempts[3].outcome).text == "one pass"


def test_replay_stops_at_the_end_of_the_recording(recording):
    with pytest.raises(StopRun, match="the recording ends here"):
        Replay("cpp", str(recording)).write(REFINING, EMPTY)


def test_replay_requires_a_readable_journal_of_the_same_backend(recording, tmp_path):
    with pytest.raises(UserError, match=r"generator\.journal"):
        Replay("cpp", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"backend\.name"):
        Replay("pallas", str(recording))
    (recording / "attempts.jsonl").write_text("?\n")
    with pytest.raises(UserError, match="line 1"):
        Replay("cpp", str(recording))


# llm


@pytest.mark.toolchain
def test_llm_returns_candidate_with_cost_prompt_and_reply():
    with ChatServer(lambda request, n: Behaviour(REPLY, usage=(3000, 200))) as server:
        llm = make_plugin(
            "generator", "llm", backend="cpp", model="m", base_url=server.base_url, price_in=1.0, price_out=2.0, system="Be brief."
        )
        reply = llm.write(DRAFTING, EMPTY)
    assert reply.candidate.files == {"kernel.cpp": PLAIN}
    assert reply.candidate.notes == "Plain loop."
    assert reply.candidate.usage.cost_usd == pytest.approx((3000 + 400) / 1e6)
    assert reply.text == REPLY
    system, user = server.requests[0]["messages"]
    assert (system["content"], user["content"]) == ("Be brief.", reply.prompt)
    assert 'extern "C" void kernel(' in reply.prompt
    assert llm.lesson(DRAFTING, reply.candidate, REFINING.attempts[0].outcome) is None


@pytest.mark.toolchain
def test_further_draft_is_another_sample_of_the_same_prompt():
    with ChatServer(lambda request, n: Behaviour(REPLY)) as server:
        llm = make_plugin("generator", "llm", backend="cpp", model="m", base_url=server.base_url, send_seed=True)
        first = llm.write(DRAFTING, EMPTY)
        second = llm.write(DRAFTING, EMPTY.model_copy(update={"drafts": (first.candidate,)}))
    assert first.prompt == second.prompt
    assert server.requests[0]["seed"] != server.requests[1]["seed"]


@pytest.mark.toolchain
def test_llm_reply_without_code_gives_a_reason():
    replies = [Behaviour("No."), Behaviour("", finish_reason="length"), Behaviour("\ud83d half a surrogate")]
    with ChatServer(lambda request, n: replies[n]) as server:
        llm = Llm("cpp", model="m", base_url=server.base_url)
        plain, cut, odd = (llm.write(FRESH, EMPTY) for _ in replies)
    assert plain.candidate.files == cut.candidate.files == odd.candidate.files == {}
    assert "no code (No.)" in plain.candidate.notes
    assert "token limit" in cut.candidate.notes
    assert plain.candidate.usage.output_tokens == 10
    odd.text.encode()


@pytest.mark.toolchain
def test_llm_writes_lessons_if_enabled():
    last = REFINING.attempts[-1]
    with ChatServer(lambda request, n: Behaviour("<think>why</think>Mind the remainder.")) as server:
        llm = Llm("cpp", model="m", base_url=server.base_url, lessons=True)
        lesson = llm.lesson(REFINING, last.candidate, last.outcome)
        none = llm.lesson(REFINING, last.candidate.model_copy(update={"files": {}}), last.outcome)
    assert lesson.text == "Mind the remainder."
    assert lesson.candidate.files == {}
    assert lesson.candidate.usage.calls == 1
    assert none is None
    assert len(server.requests) == 1


def test_llm_respects_budget_from_ledger_and_stop_event(tmp_path):
    (tmp_path / "calls.jsonl").write_text(
        '{"time": 0, "model": "m", "input_tokens": 60, "output_tokens": 50, "cached_tokens": null, "cost_usd": null, "seconds": 1, '
        '"retries": 0, "ok": true}\n'
    )
    llm = Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1", budget_tokens=100)
    llm.ledger = tmp_path / "calls.jsonl"
    with pytest.raises(StopRun, match="110 of 100"):
        llm.write(FRESH, EMPTY)
    llm.stop = threading.Event()
    llm.stop.set()
    with pytest.raises(StopRun, match="stopped"):
        llm.write(FRESH, EMPTY)


def test_llm_defaults_equal_chat_settings():
    ours = {name: p.default for name, p in signature(Llm).parameters.items() if name in ChatSettings.model_fields}
    assert ours.keys() == ChatSettings.model_fields.keys()
    for name, field in ChatSettings.model_fields.items():
        assert ours[name] == ("" if name == "model" else field.default), name
    with pytest.raises(UserError, match="did you mean 'temperature'"):
        make_plugin("generator", "llm", backend="cpp", model="m", temprature=1)


# command


def program(text):
    return [sys.executable, "-c", text]


@pytest.mark.toolchain
def test_command_reads_prompt_and_prints_reply():
    echo = (
        "import os, sys; prompt = sys.stdin.read(); print('for', os.environ['EVOKERNEL_ATTEMPT'], len(prompt)); "
        "print('```cpp', 'void kernel() {}', '```', sep='\\n')"
    )
    for command in (program(echo), shlex.join(program(echo))):
        reply = Command("cpp", command).write(DRAFTING, EMPTY)
        assert reply.candidate.files == {"kernel.cpp": "void kernel() {}\n"}
        assert reply.candidate.notes == f"for toy/scaled_relu/3 {len(reply.prompt)}"
        assert (reply.candidate.usage.calls, reply.candidate.usage.input_tokens) == (1, None)


@pytest.mark.toolchain
def test_failing_command_is_an_infrastructure_error():
    with pytest.raises(InfraError, match=r"exit code 3; stderr: no luck today"):
        Command("cpp", program("import sys; print('no luck\\ntoday', file=sys.stderr); sys.exit(3)")).write(FRESH, EMPTY)


@pytest.mark.toolchain
def test_command_that_times_out_is_killed_with_its_children(tmp_path):
    note = tmp_path / "pid"
    text = f"import subprocess, time; p = subprocess.Popen(['sleep', '300']); open({str(note)!r}, 'w').write(str(p.pid)); time.sleep(300)"
    for limit_s in growing_limits(lambda: note.exists() and note.read_text()):
        with pytest.raises(InfraError, match=f"did not finish within {limit_s:g} s"):
            Command("cpp", program(text), timeout_s=limit_s).write(FRESH, EMPTY)
    wait_until(lambda: has_ended(int(note.read_text())))


@pytest.mark.toolchain
def test_remaining_children_of_a_command_are_killed(tmp_path):
    note = tmp_path / "pid"
    text = f"import subprocess; p = subprocess.Popen(['sleep', '300']); open({str(note)!r}, 'w').write(str(p.pid)); print('done')"
    assert Command("cpp", program(text)).write(FRESH, EMPTY).text == "done\n"
    wait_until(lambda: has_ended(int(note.read_text())))


def has_ended(pid):
    """Whether a process has ended; an orphan may wait a moment until init collects it."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return not Path("/proc/self/stat").exists() or not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("command", "fix"), [("", "generator.command"), ("'", "Quote it"), ("no-such-program -x", "no-such-program")])
def test_invalid_command_is_refused_early(command, fix):
    with pytest.raises(UserError, match=fix):
        Command("cpp", command)


# file_exchange


def test_file_exchange_waits_for_reply_and_reuses_it(tmp_path):
    exchange = FileExchange("cpp", str(tmp_path / "box"), poll_s=0.02)
    prompt_file, reply_file = tmp_path / "box" / "toy--scaled_relu--3.prompt.md", tmp_path / "box" / "toy--scaled_relu--3.reply.md"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(exchange.write, DRAFTING, EMPTY)
        wait_until(prompt_file.exists)
        (tmp_path / "draft").write_text(REPLY)
        os.rename(tmp_path / "draft", reply_file)
        reply = waiting.result(HANG_S)
    assert reply.candidate.files == {"kernel.cpp": PLAIN}
    assert prompt_file.read_text() == reply.prompt
    modified_ns = prompt_file.stat().st_mtime_ns
    assert FileExchange("cpp", str(tmp_path / "box"), poll_s=0.02).write(DRAFTING, EMPTY).text == reply.text
    assert prompt_file.stat().st_mtime_ns == modified_ns


def test_file_exchange_waits_until_reply_is_complete(tmp_path):
    class WritingClock(threading.Event):
        """Another piece of the reply is written before every second check."""

        pieces, checks = [REPLY[:10], REPLY[10:30], REPLY[30:]], 0

        def wait(self, timeout=None):
            self.checks += 1
            if self.pieces and self.checks % 2:
                with (tmp_path / "toy--scaled_relu--0.reply.md").open("a") as file:
                    file.write(self.pieces.pop(0))
            return False

    exchange = FileExchange("cpp", str(tmp_path))
    exchange.stop = WritingClock()
    assert exchange.write(FRESH, EMPTY).text == REPLY


def test_file_exchange_renames_reply_to_another_prompt(tmp_path):
    exchange = FileExchange("cpp", str(tmp_path), poll_s=0.02, timeout_s=0.1)
    reply_file = tmp_path / "toy--scaled_relu--6.reply.md"
    with pytest.raises(InfraError, match="no reply in"):
        exchange.write(REFINING, IMPROVE)
    reply_file.write_text(REPLY)
    with pytest.raises(InfraError, match="no reply in"):
        exchange.write(REFINING, EMPTY)
    assert (tmp_path / f"{reply_file.name}.old1").read_text() == REPLY


def test_file_exchange_stops_with_the_run(tmp_path):
    exchange = FileExchange("cpp", str(tmp_path), poll_s=60)
    exchange.stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(exchange.write, FRESH, EMPTY)
        wait_until((tmp_path / "toy--scaled_relu--0.prompt.md").exists)
        exchange.stop.set()
        with pytest.raises(StopRun, match="stopped while waiting"):
            waiting.result(HANG_S)


def test_file_exchange_requires_a_usable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"generator\.folder"):
        FileExchange("cpp", str(tmp_path / "file" / "box"))
    with pytest.raises(UserError, match="poll_s"):
        make_plugin("generator", "file_exchange", backend="cpp", folder=str(tmp_path), poll_s=0)
