"""Wrong input ends with one line that names the fix and exit code 2; nothing is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_run
from cli_helpers import Call, CommandResult

from evokernel.core.plugins import make_plugin


def assert_refused(result: CommandResult, *words: str) -> None:
    """One line on stderr with these words, nothing on stdout, exit code 2."""
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err, result.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def needs_compiler() -> None:
    if missing := make_plugin("backend", "cpp").unavailable_reason():
        pytest.skip(missing)


RUNS: list[tuple[list[str], list[str]]] = [
    (["--tasks", "starter/sofmax"], ["sofmax", "softmax"]),
    (["--tasks", "strater"], ["strater", "starter"]),
    (["--tasks", "no/such/file.py"], ["no/such/file.py"]),
    (["--tasks", ","], ["no tasks given"]),
    (["--backend", "cppp"], ["cppp", "did you mean 'cpp'"]),
    (["--generator", "template_serch"], ["template_serch", "did you mean 'template_search'"]),
    (["--policy", "valeu"], ["valeu", "did you mean 'value'"]),
    (["--set", "polcy.epsilon=1"], ["polcy", "did you mean 'policy'"]),
    (["--set", "policy.epsilom=0.1"], ["epsilom", "did you mean 'epsilon'"]),
    (["--set", "budget=some"], ["budget", "some"]),
    (["--set", "budget"], ["key=value"]),
    (["--config", "missing.toml"], ["missing.toml"]),
    (["--config", "broken.toml"], ["broken.toml", "TOML"]),
    (["--out", "file/run"], ["file/run", "Choose another one"]),
    (["--memory", "file/bank.db"], ["file/bank.db", "--memory"]),
    (["--memory", "corrupt.db"], ["corrupt.db", "--memory"]),
    (["--tasks", "syntax.py"], ["syntax.py", "line 2"]),
    (["--tasks", "raises.py"], ["raises.py", "ValueError: planted"]),
    (["--tasks", "empty.py"], ["empty.py", "Model"]),
    (["--tasks", "binary.py"], ["binary.py"]),
]


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize(("arguments", "words"), RUNS, ids=[" ".join(arguments) for arguments, _ in RUNS])
def test_run_refuses_wrong_input(arguments: list[str], words: list[str], here: Path, task_file: Path, call: Call) -> None:
    (here / "file").write_text("")
    (here / "broken.toml").write_text("budget = = 3\n")
    (here / "corrupt.db").write_bytes(b"no database at all, but long enough to be read as one\n" * 40)
    (here / "syntax.py").write_text("x = 1\ndef (:\n")
    (here / "empty.py").write_text("x = 1\n")
    (here / "binary.py").write_bytes(b"\xff\xfe\x00\x01")
    (here / "raises.py").write_text(task_file.read_text().replace("return x * 2 + 1", 'raise ValueError("planted\\nsecond line")'))
    before = {path.name for path in here.iterdir()}
    tasks = [] if "--tasks" in arguments else ["--tasks", str(task_file)]
    backend = [] if "--backend" in arguments else ["--backend", "cpp"]
    assert_refused(call("run", *backend, *tasks, *arguments), *words)
    assert not list(here.glob("runs/*/attempts.jsonl"))
    assert before <= {path.name for path in here.iterdir()}


def test_missing_compiler_is_reported_before_anything_is_written(here: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.delenv("CXX", raising=False)
    assert_refused(call("run", "--backend", "cpp"), "no C++ compiler", "install g++")
    assert_refused(call("verify", __file__, "--task", "starter/softmax", "--backend", "cpp"), "no C++ compiler")
    assert list(here.iterdir()) == []
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.unavailable_reason", lambda self: "no compiler for TPUs")
    assert_refused(call("run"), "backend 'pallas' cannot work on this machine: no compiler for TPUs")
    assert list(here.iterdir()) == []
    assert call("doctor").code == 1
    assert not call("doctor", "--json").json["ready"]
    ready_backends = {row["backend"] for row in call("backends", "--json").json if row["ready"]}
    assert not ready_backends & {"ascendc", "cpp", "cuda", "pallas"}, "they need the C++ compiler"


def truncate_journal(run: Path) -> None:
    lines = (run / "attempts.jsonl").read_text().splitlines(keepends=True)
    (run / "attempts.jsonl").write_text("".join([lines[0], lines[1][:40] + "\n", *lines[2:]]))


def truncate_tasks(run: Path) -> None:
    (run / "tasks.jsonl").write_text("{}\n")


def describe_hardware_by_a_number(run: Path) -> None:
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(text.replace("[hardware]", "[hardware]\nspeed = 3"))


def break_settings(run: Path) -> None:
    (run / "run.toml").write_text("budget = \n")


def empty_folder(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


DAMAGE: list[tuple[Callable[[Path], None], list[str]]] = [
    (truncate_journal, ["attempts.jsonl", "line 2", "head -n 1"]),
    (truncate_tasks, ["tasks.jsonl", "Restore"]),
    (break_settings, ["run.toml", "TOML"]),
    (describe_hardware_by_a_number, ["run.toml", "[hardware] speed = 3"]),
    (empty_folder, ["not a run folder", "report --list"]),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE, ids=[damage.__name__ for damage, _ in DAMAGE])
def test_damaged_run_is_refused_and_unchanged(damage: Callable[[Path], None], words: list[str], here: Path, call: Call) -> None:
    sample_run.write_run(here / "runs" / "one", *sample_run.make_sample())
    damage(here / "runs" / "one")
    before = {path: path.read_bytes() for path in (here / "runs" / "one").iterdir()}
    for command in ("resume", "report", "export"):
        assert_refused(call(command, "runs/one"), *words)
    assert {path: path.read_bytes() for path in (here / "runs" / "one").iterdir()} == before
    if damage is not empty_folder:
        assert "damaged" in call("report", "--list", "--json").json[0]["state"]


@pytest.mark.usefixtures("needs_compiler")
def test_other_commands_refuse_wrong_input(here: Path, task_file: Path, call: Call) -> None:
    assert_refused(call("report"), "no runs in ./runs")
    assert_refused(call("verify", "nothing.cpp", "--task", task_file), "cannot read nothing.cpp")
    (here / "kernel.so").write_bytes(b"\x7fELF\xff\xfe")
    assert_refused(call("verify", "kernel.so", "--task", task_file), "not text")
    (here / "kernel.cpp").write_text("")
    assert_refused(call("verify", "kernel.cpp", "--task", f"{task_file},starter/softmax"), "names 2 tasks")
    assert_refused(call("verify", "kernel.cpp", "--task", task_file), "kernel.cpp is empty", "evokernel tasks show")
    (here / "kernel.py").write_text("def kernel(x): ...\n")
    assert_refused(
        call("verify", "kernel.py", "--task", task_file, "--backend", "cpp"), "takes kernel.cpp, not kernel.py", "choose another backend"
    )
    (here / "notes").mkdir()
    (here / "notes" / "read.me").write_text("no kernel here\n")
    assert_refused(call("verify", "notes", "--task", task_file, "--backend", "cpp"), "takes kernel.cpp, not read.me")
    assert_refused(call("memory", "list"), "no memory bank at evokernel-memory.db")
    assert_refused(call("memory", "revoke", "x"), "no memory bank")
    assert_refused(call("memory", "import", "pack.jsonl"), "pack.jsonl")
    assert_refused(call("tasks", "show"), "no task given")
    assert_refused(call("tasks", "show", "starter/softmax", "--backend", "cppp"), "did you mean 'cpp'")
    sample_run.write_run(here / "runs" / "one", sample_run.make_sample()[0], [])
    assert_refused(call("export", "runs/one"), "nothing to export")
    assert_refused(call("run", "--backend", "cpp", "--tasks", task_file, "--out", "runs/one"), "already contains a run", "resume")
    (here / "file").write_text("")
    sample_run.write_run(here / "runs" / "two", *sample_run.make_sample())
    assert_refused(call("export", "runs/two", "--out", "file/x"), "Choose another folder")
    assert (here / "kernel.so").exists()
