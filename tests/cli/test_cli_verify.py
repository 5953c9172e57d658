"""`evokernel verify`: several kernels, stdin, gates as they pass, limits, and what the memory bank keeps."""

import io
from pathlib import Path
from typing import Any

import pytest
import sample_run
from cli_helpers import KERNEL, Call
from engine_parts import make_task

import evokernel
from evokernel.app import verification
from evokernel.app.kernel_files import STDIN, detect_backend, list_kernels, name_file_lines, read_candidate
from evokernel.app.verification import VerificationRequest, plan_verifications, remember_outcomes
from evokernel.cli.verify import GateDisplay, explain_limit
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, GateResult, Job, Outcome
from evokernel.memory.bank import Bank


def settings_for(backend: str) -> RunConfig:
    return resolve_config(None, [f"backend={backend}"])


@pytest.fixture
def two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "load_sized_tasks", lambda config, spec: [make_task("relu"), make_task("gelu")])


def test_kernels_belong_to_the_tasks_they_are_named_after(two_tasks: None, tmp_path: Path) -> None:
    for name in ("relu.cpp", "gelu.cc"):
        (tmp_path / name).write_text(KERNEL)
    requests = plan_verifications([tmp_path], "t", None, settings_for)
    assert [(request.path.name, request.task.id) for request in requests] == [("gelu.cc", "t/gelu"), ("relu.cpp", "t/relu")]
    (tmp_path / "mine.cpp").write_text(KERNEL)
    with pytest.raises(UserError, match="named after none of them"):
        plan_verifications([tmp_path / "mine.cpp"], "t", None, settings_for)


def test_kernel_on_stdin_needs_a_backend(two_tasks: None) -> None:
    with pytest.raises(UserError, match="--backend cpp"):
        plan_verifications([Path("-")], "t", None, settings_for)


@pytest.mark.heavy
def test_several_kernels_and_stdin_are_verified_and_remembered(
    call: Call, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.cpp").write_text(KERNEL.replace("+ 1", "+ 2"))
    monkeypatch.setattr("sys.stdin", io.StringIO(KERNEL))
    quick = ["--set", "protocol=paper", "--set", "clock=synthetic"]
    result = call("verify", "-", "bad.cpp", "--backend", "cpp", "--task", task_file, "--remember", "--memory", "bank.db", *quick)
    assert result.code == 1, result.err
    assert "1 of 2 kernels passed every gate" in result.out
    assert "kept 4 items in the memory bank" in result.err
    with Bank.open_reader(Path("bank.db")) as bank:
        assert bank.count_items() == 4


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("source", "reason"),
    [(KERNEL, None), (KERNEL.replace("+ 1", "+ 2"), "mismatch"), (KERNEL.replace("out[i]", "out(i)"), "compile_error")],
)
def test_the_command_and_the_python_api_give_the_same_record(
    source: str, reason: str | None, call: Call, task_file: Path, tmp_path: Path
) -> None:
    kernel = tmp_path / "double.cpp"
    kernel.write_text(source)
    command = call("verify", kernel, "--task", task_file, "--json", "--set", "protocol=paper", "--set", "clock=synthetic")
    result = evokernel.verify(kernel, task_file, settings={"protocol": "paper", "clock": "synthetic"}, ignore_cache=True)
    evokernel.close_workers()
    assert result.reason == reason
    assert command.code == (0 if result.correct else 1)
    assert without_seconds(command.json) == without_seconds({**result.record(), "file": str(kernel)})


def without_seconds(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a verification without the durations of its gates."""
    gates = [{**gate, "seconds": None} for gate in record["outcome"]["gates"]]
    return {**record, "outcome": {**record["outcome"], "gates": gates}}


def make_request(kernel: Candidate, memory: Path) -> VerificationRequest:
    return VerificationRequest(Path("k.cpp"), resolve_config(None, ["backend=cpp"], memory=str(memory)), make_task("relu"), kernel)


def test_remembered_kernels_are_the_records_of_attempts(tmp_path: Path) -> None:
    good, bad = (Candidate(backend="cpp", files={"kernel.cpp": text}) for text in ("good", "bad"))
    failure = Outcome(gates=(GateResult(gate="check", passed=False, reason="mismatch"),))
    request = make_request(good, tmp_path / "bank.db")
    assert remember_outcomes([(request, good, sample_run.estimated_outcome(50.0)), (request, bad, failure)]) == 4
    with Bank.open_reader(tmp_path / "bank.db") as bank:
        items = {found.item.id.partition(":")[2]: found.item for found in bank.find_items()}
    assert set(items) == {"t/relu/0", "t/relu/0/note", "t/relu/1", "t/relu/1/note"}
    assert (items["t/relu/0"].code, items["t/relu/0"].feasible, items["t/relu/1"].reason) == ("good", True, "mismatch")


def test_gates_are_printed_as_they_pass(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = Candidate(backend="cpp", files={"kernel.cpp": "x"})
    job = Job(backend="cpp", task=make_task("relu"), candidate=kernel)
    display = GateDisplay(kernel, "mine.cpp", ["t/relu"], as_json=False)
    display.show_gate(job, "build", None)
    assert "build 0 s" in display.describe()
    display.show_gate(job, "build", GateResult(gate="build", passed=True, seconds=1.5))
    display.show_gate(job.model_copy(update={"purpose": "tuning"}), "time", GateResult(gate="time", passed=True))
    assert capsys.readouterr().out == "t/relu\n  ✓ build     1.50 s\n"
    display.show_rest(Outcome(gates=(GateResult(gate="build", passed=True), GateResult(gate="check", passed=False, reason="mismatch"))))
    assert capsys.readouterr().out == "  ✗ check     0.00 s  mismatch\n"


def test_time_out_names_its_limit_and_setting() -> None:
    outcome = Outcome(gates=(GateResult(gate="check", passed=False, reason="timeout"),))
    (line,) = explain_limit(resolve_config(None, ["timeout_s=7"]), outcome)
    assert "the setting timeout_s is 7 s" in line
    assert "--set timeout_s=14" in line
    assert explain_limit(RunConfig(), sample_run.estimated_outcome(50.0)) == []


def test_other_suffix_of_the_same_language_is_the_same_kernel(tmp_path: Path) -> None:
    (tmp_path / "mine.cc").write_text("int x;")
    assert detect_backend(tmp_path / "mine.cc") == "cpp"
    assert read_candidate(tmp_path / "mine.cc", "cpp").files == {"kernel.cpp": "int x;"}


def test_standard_input_is_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("int x;"))
    assert read_candidate(STDIN, "cpp").files == {"kernel.cpp": "int x;"}


def test_folder_of_kernels_is_listed_and_folder_of_one_kernel_is_not(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.py", "notes.md", ".hidden.cpp", "one/kernel.cpp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [path.name for path in list_kernels(tmp_path)] == ["a.cpp", "b.py", "one"]
    assert list_kernels(tmp_path / "one") == [tmp_path / "one"]
    assert list_kernels(tmp_path / "a.cpp") == [tmp_path / "a.cpp"]


def test_lines_of_parts_are_also_lines_of_the_users_file() -> None:
    text = "// file: tiling.h\nint a;\n// file: op_kernel.cpp\nint b;\nint c;\n"
    kernel = Candidate(backend="ascendc", files={"kernel.asc": text})
    detail = "V3 at op_kernel.cpp line 2 `int c;`; tiling.h:1: error; my_op_kernel.cpp line 2"
    expected = "V3 at op_kernel.cpp line 2 (mine.asc line 5) `int c;`; tiling.h:1 (mine.asc line 2): error; my_op_kernel.cpp line 2"
    assert name_file_lines(detail, kernel, "mine.asc") == expected
    assert name_file_lines(detail, Candidate(backend="cpp", files={"kernel.cpp": "int x;"}), "mine.cpp") == detail
