"""A real run through the program, and every command on its results."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sample_run
from cli_helpers import KERNEL, TASK, Call, CommandResult

from evokernel.app.kernel_files import detect_backend
from evokernel.cli.run_display import display_run
from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Outcome, Reply, Stage
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.engine.loop import Engine

PROGRAM = Path(sys.executable).with_name("evokernel")
SUMMARY = {
    "tasks": int,
    "compiled": int,
    "feasible": int,
    "feasible_round1": int,
    "median_gain": float,
    "geomean_speedup": float,
    "attempts": int,
    "seconds": float,
    "cost": None,
    "id": str,
    "folder": str,
    "report": str,
    "per_task": list,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, task_file: Path, script: Path) -> Path:
    """A working folder in which one run was made."""
    if missing := make_plugin("backend", "cpp").unavailable_reason():
        pytest.skip(missing)
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def run_result(home: Path, task_file: Path, script: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> CommandResult:
    """The result of `run --json`; the run is made once and stored in the folder."""
    monkeypatch.chdir(home)
    stored = home / "result.json"
    if not stored.exists():
        settings = ["--set", f"generator.folder={script}", "--workers", 1, "--budget", 2, "--out", "runs/one", "--memory", "bank.db"]
        result = call(
            "run", "--backend", "cpp", "--tasks", task_file, "--generator", "from_files", "--policy", "passk", *settings, "--json"
        )
        stored.write_text(json.dumps(result))
    return CommandResult(*json.loads(stored.read_text()))


@pytest.mark.slow(one_in=5)
def test_run_json_is_one_object(run_result: CommandResult) -> None:
    assert run_result.code == 0, run_result.err
    summary = run_result.json
    for name, kind in SUMMARY.items():
        assert summary[name] is None if kind is None else isinstance(summary[name], kind), name
    assert (summary["tasks"], summary["compiled"], summary["feasible"], summary["feasible_round1"]) == (1, 1, 1, 0)
    assert summary["failures"] == {"mismatch": 1}
    assert summary["finished"]
    assert summary["per_task"][0]["first_round"] == 2
    assert Path(summary["report"]).is_file()


def test_run_prints_its_configuration_and_each_attempt(run_result: CommandResult) -> None:
    lines = run_result.err.splitlines()
    assert lines[0].startswith(
        "1 task × 2 attempts, timed at size laptop, backend cpp, generator from_files, policy passk, memory bank bank.db ("
    )
    assert lines[1].startswith("[1/2] double  draft   fail check mismatch: ")
    assert lines[2].startswith("-- round 1: 1 of 1 compiled, 0 of 1 correct; failures: mismatch 1; cost: none")
    assert lines[3].startswith("[2/2] double  draft   ok ")
    assert "1 of 1 correct" in lines[4]


def test_resume_of_a_finished_run_reports_completion(run_result: CommandResult, call: Call) -> None:
    result = call("resume", "runs/one", "--json")
    assert result.code == 0
    assert "is complete (2 attempts)" in result.err
    assert result.json["attempts"] == 2


@pytest.mark.slow(one_in=5)
def test_resume_with_a_larger_budget_continues(run_result: CommandResult, call: Call) -> None:
    shutil.copytree("runs/one", "runs/more")
    result = call("resume", "runs/more", "--budget", 3, "--plain")
    assert result.code == 0, result.err
    assert "Resuming after 2 of 3 attempts" in result.out
    assert "[3/3] double" in result.out
    assert "[2/3]" not in result.out
    assert "Resume with" not in result.out
    assert len(Run.open(Path("runs/more")).attempts()) == 3


def test_report_of_the_latest_run_and_the_list(run_result: CommandResult, call: Call) -> None:
    result = call("report", "runs/one", "--out", "page.html")
    assert result.code == 0, result.err
    assert "first→best" in result.out
    assert "<svg" in Path("page.html").read_text()
    rows = {row["folder"]: row for row in call("report", "--list", "--json").json}
    assert rows["runs/one"]["state"] == "finished"
    assert rows["runs/one"]["correct"] == 1
    assert "runs/one" in call("report", "--list").out
    assert call("report", "--json").json["tasks"] == 1


def test_run_keeps_its_bank_from_any_folder(run_result: CommandResult, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("runs/one").absolute()
    monkeypatch.chdir(tmp_path)
    result = call("resume", folder, "--json")
    assert result.code == 0, result.err
    assert call("report", folder, "--out", "page.html", "--json").err == ""
    assert not list(tmp_path.glob("*.db"))


def test_class_in_the_working_folder_is_found_and_hides_no_library(task_file: Path, tmp_path: Path) -> None:
    """In another process: the installed program does not have the working folder on its path."""
    (tmp_path / "mine.py").write_text("from evokernel.policies.passk import plugin as Mine\n")
    (tmp_path / "random.py").write_text("raise SystemExit('hides the library')\n")
    (tmp_path / "replies" / "double").mkdir(parents=True)
    more = ["--policy", "mine:Mine", "--generator", "from_files", "--set", "generator.folder=replies", "--budget", "1", "--fresh", "--json"]
    process = subprocess.run(
        [PROGRAM, "run", "--backend", "cpp", "--tasks", task_file, *more], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 1, process.stderr  # nothing was solved: there is no reply
    assert json.loads(process.stdout)["policy"] == "mine:Mine"


def test_fallback_backend_replaces_the_default_and_is_announced(
    home: Path, task_file: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.unavailable_reason", lambda self: "no jax: pip install it")
    (tmp_path / "replies" / "double").mkdir(parents=True)
    more = ["--generator", "from_files", "--set", "generator.folder=replies", "--budget", 1, "--fresh", "--json"]
    result = call("run", "--tasks", task_file, *more)
    assert result.code == 1, result.err  # nothing was solved: there is no reply
    first, second, *_ = result.err.splitlines()
    assert first == "backend 'pallas' cannot work on this machine: no jax: pip install it. Using backend 'cpp' instead."
    assert second.startswith("1 task × 1 attempt, timed at size laptop, backend cpp, ")
    assert result.json["backend"] == "cpp"
    assert Run.open(Path(result.json["folder"])).config.backend == {"name": "cpp"}
    assert "can work on this machine, with backend cpp." in call("doctor").out
    assert {check["name"]: check["state"] for check in call("doctor", "--json").json["checks"]}["backend pallas"] == "optional"
    result = call("run", "--backend", "pallas", "--tasks", task_file)
    assert (result.code, result.err) == (2, "error: backend 'pallas' cannot work on this machine: no jax: pip install it\n")


def test_backend_is_detected_from_the_kernel_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kernel.cpp").write_text("")
    assert detect_backend(tmp_path / "mine.py") == "pallas"
    assert detect_backend(tmp_path / "mine.cpp") == detect_backend(tmp_path / "folder") == "cpp"
    assert detect_backend(tmp_path / "mine.txt") == "pallas"


def test_verify_labels_estimates(call: Call, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel.py").write_text("def kernel(x): ...\n")
    backends: list[str] = []

    def fake_verify(config: RunConfig, *_: object, **options: object) -> Outcome:
        backends.append(config.plugin_name("backend"))
        return sample_run.estimated_outcome(50.0)

    monkeypatch.setattr("evokernel.app.verification.verify_candidate", fake_verify)
    result = call("verify", tmp_path / "kernel.py", "--task", task_file, "--baseline", "compile")
    lines = {line[2:].partition("  ")[0]: line for line in result.out.splitlines() if line.startswith("  ")}
    assert result.code == 0, result.err
    assert lines["latency"].endswith("  50.0 µs, estimate (schedule)")
    assert lines["XLA"].endswith("  100 µs, kernel 2.00× faster")
    assert "20.0 µs" in lines["floor"]
    assert "bound by hbm" in lines
    assert result.err == "note: no torch.compile baseline is available for estimate (schedule) timings\n"
    record = call("verify", tmp_path / "kernel.py", "--task", task_file, "--json").json
    assert record["best_baseline"] == {"name": "xla", "us": 100.0, "speedup": 2.0}
    assert (record["clock"], record["baseline_us"], record["floor_us"], record["bottleneck"]) == (
        "estimate (schedule)",
        {"xla": 100.0},
        20.0,
        "hbm",
    )
    call("verify", tmp_path / "kernel.py", "--task", task_file, "--backend", "cpp")
    assert backends == ["pallas", "pallas", "cpp"]


def test_run_of_estimates_is_labelled_in_report_and_export(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks, _ = sample_run.make_sample()
    attempts = [sample_run.make_attempt(tasks[0], n, sample_run.estimated_outcome(50.0 - n)) for n in range(2)]
    sample_run.write_run(tmp_path / "run", tasks, attempts, backend={"name": "pallas"})
    for command in (("report", "run"), ("export", "run", "--out", "kernels")):
        result = call(*command)
        assert result.code == 0, result.err
        assert "Times: estimate (schedule)" in result.out
        assert "XLA" in result.out
        assert "PyTorch eager" not in result.out
    assert "2.04× faster than XLA" in (tmp_path / "kernels" / "README.md").read_text()
    summary = call("report", "run", "--json").json
    assert (summary["clock"], summary["baseline"]) == (["estimate (schedule)"], ["xla"])
    expected_figures = {"baseline": "xla", "baseline_us": 100.0, "floor_us": 20.0, "bottleneck": "hbm"}
    assert expected_figures.items() <= summary["per_task"][0].items()
    assert {name: summary["per_task"][1][name] for name in expected_figures} == dict.fromkeys(expected_figures)


def test_unusual_tasks_get_notes(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "noise.py"
    file.write_text(TASK.replace("ROWS, COLS)]", "*map(int, '64 48'.split()))]").replace("x * 2 + 1", "x + torch.randn_like(x)"))
    text = call("tasks", "show", file).out
    assert "no kernel can match it" in text
    assert "checked at one size only" in text
    assert "a hidden size" not in text


def test_export_writes_kernels(run_result: CommandResult, call: Call) -> None:
    export = call("export", "runs/one", "--out", "kernels", "--all", "--json").json
    assert export["wrapped"]
    assert ["double" in Path(kernel["folder"]).name for kernel in export["kernels"]] == [True]
    assert (Path(export["kernels"][0]["folder"]) / "kernel.cpp").read_text() == KERNEL
    assert "python -m pytest kernels" in call("export", "runs/one", "--out", "kernels", "--all").out


def test_memory_commands_on_the_bank_of_the_run(run_result: CommandResult, call: Call, tmp_path: Path) -> None:
    bank = ("--memory", "bank.db")
    stats = call("memory", "stats", *bank, "--json").json
    assert "items" in call("memory", "stats", *bank).out
    traces = call("memory", "list", "--kind", "trace", *bank, "--json").json
    assert [trace["feasible"] for trace in traces[:2]] == [False, True]
    assert stats["kinds"]["trace"] == len(traces)
    right = traces[1]["id"]
    assert right in call("memory", "list", "--kind", "trace", *bank).out
    item = call("memory", "show", right, *bank, "--json").json
    assert item["item"]["code"] == KERNEL
    assert "out[i] = x[i] * 2 + 1" in call("memory", "show", right, *bank).out
    hits = call("memory", "search", "x * 2 + 1 rows and columns", "--limit", 3, *bank, "--json").json
    assert len(hits) == 3
    assert hits[0]["similarity"] >= hits[2]["similarity"]
    pack = tmp_path / "pack.jsonl"
    pack_record = call("memory", "export", pack, *bank, "--json").json
    other = ("--memory", tmp_path / "other.db")
    assert call("memory", "import", pack, *other, "--json").json["items"] == pack_record["items"] == stats["items"]
    misspelt = call("memory", "export", pack, "--exclude", traces[0]["task"] + "x", *bank)
    assert f"did you mean '{traces[0]['task']}'" in misspelt.err
    assert call("memory", "list", "--task", "no/such", *bank).out == "No matching items.\n"
    revocation = call("memory", "revoke", right, *other, "--json").json
    assert right in revocation["items"]
    assert right not in [trace["id"] for trace in call("memory", "list", "--kind", "trace", *other, "--json").json]


@pytest.mark.slow(one_in=5)
def test_verify_passes_correct_kernels_and_explains_failures(
    run_result: CommandResult, call: Call, task_file: Path, tmp_path: Path
) -> None:
    kernel = tmp_path / "mine.cpp"
    kernel.write_text(KERNEL)
    result = call("verify", kernel, "--task", task_file)
    assert result.code == 0, result.out + result.err
    gates = ("screen", "build", "check", "sanitize", "time")
    assert [line.split()[:2] for line in result.out.splitlines()[1:6]] == [["✓", gate] for gate in gates]
    assert "PyTorch eager" in result.out
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kernel.cpp").write_text("int nothing;\n")
    result = call("verify", tmp_path / "folder", "--task", task_file, "--json")
    assert result.code == 1
    assert not result.json["feasible"]
    assert result.json["reason"]
    assert result.json["latency_us"] is None
    assert result.json["speedup"] is None


def test_tasks_backends_and_doctor(run_result: CommandResult, call: Call, task_file: Path) -> None:
    [row] = call("tasks", task_file, "--json").json
    assert row["outputs"] == ["out:float32[64,48]"]
    assert row["task"] in call("tasks", task_file).out
    [record] = call("tasks", "show", task_file, "--backend", "cpp", "--json").json
    assert 'extern "C" void kernel(' in record["entry_point"]
    assert "held_out" not in record["sizes"]
    assert "entry point (cpp)" in call("tasks", "show", task_file, "--backend", "cpp").out
    assert "entry point (pallas):\n\ndef kernel(" in call("tasks", "show", task_file).out
    assert {"backend": "cpp", "ready": True}.items() <= next(b for b in call("backends", "--json").json if b["backend"] == "cpp").items()
    assert "cpp" in call("backends").out
    doctor = call("doctor", "--memory", "bank.db", "--json")
    assert doctor.code == 0
    assert doctor.json["ready"]
    assert {"python", "torch", "cores", "disk", "memory", "model keys"} <= {check["name"] for check in doctor.json["checks"]}


@pytest.mark.parametrize(("found", "state", "detail"), [(True, "ok", "timed on it"), (False, "optional", "latencies are estimated")])
def test_doctor_reports_whether_a_tpu_is_available(
    found: bool, state: str, detail: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.unavailable_reason", lambda self: None)
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.versions", lambda self: {"chip": "v5e", "jax": "1"})
    monkeypatch.setattr("evokernel.backends.pallas.backend.has_tpu", lambda: found)
    checks = {check["name"]: check for check in call("doctor", "--json").json["checks"]}
    assert checks["backend pallas"]["detail"] == "chip: v5e; jax: 1"
    assert checks["tpu"]["state"] == state
    assert detail in checks["tpu"]["detail"]


def test_doctor_prints_measured_ceilings(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    assert "ceilings" not in call("doctor").out
    (tmp_path / "ceilings").mkdir()
    (tmp_path / "ceilings" / "a.json").write_text('{"memory_gbs": 12, "cache_gbs": 50, "gflops": 40}')
    assert "12 GB/s from memory, 50 from cache, 40 GFLOP/s on one core" in call("doctor").out
    (tmp_path / "ceilings" / "a.json").write_text("{ half")
    assert "cannot be read" in call("doctor").out


def test_doctor_prints_names_of_keys_never_their_values(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    result = call("doctor")
    assert "OPENAI_API_KEY" in result.out
    assert "secret" not in result.out + result.err


class FakeParts:
    """Parts of an engine that answer at once; `write` calls `before` first."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def write(self, state: State, context: Context) -> Reply:
        self.before(state)
        return Reply(candidate=Candidate(backend="cpp", files={}, notes="nothing"))

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        return None

    def choose(self, state: State, memory: object) -> Context:
        return Context(stage=Stage.DRAFT)

    def learn(self, *_: object) -> None: ...

    def add(self, *_: object) -> None: ...

    def close(self) -> None: ...


def make_engine(folder: Path, before: Any) -> Engine:
    run = sample_run.write_run(folder, sample_run.make_sample()[0], [], concurrency=1)
    parts: Any = FakeParts(before)
    return Engine(run, parts, parts, parts, parts, lambda *_: [])


def test_first_interrupt_finishes_attempts_and_prints_resume_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt(state: State) -> None:
        if state.next_id == "made/softmax/0":
            os.kill(os.getpid(), signal.SIGINT)
            assert engine.stop.wait(60)

    engine = make_engine(tmp_path / "run", interrupt)
    assert display_run(engine, plain=True, as_json=False) == 130
    out, err = capfd.readouterr()
    assert "Finishing 1 attempt in flight; press Ctrl-C again to abort" in err
    assert f"Resume with: evokernel resume {tmp_path / 'run'}" in out
    assert [attempt.id for attempt in Run.open(tmp_path / "run").attempts()] == ["made/relu/0", "made/softmax/0"]
    resumed_engine = reopen_engine(tmp_path / "run")
    assert display_run(resumed_engine, plain=True, as_json=False) == 1  # finished, but no kernel is correct
    assert len(Run.open(tmp_path / "run").attempts()) == 9


def reopen_engine(folder: Path) -> Engine:
    parts: Any = FakeParts(lambda state: None)
    return Engine(Run.open(folder), parts, parts, parts, parts, lambda *_: [])


def test_second_interrupt_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()
    monkeypatch.setattr("evokernel.app.run_lifecycle.os._exit", codes.put)
    exit_codes: list[int] = []

    def interrupt(state: State) -> None:
        if not exit_codes:
            engine.stop.set()  # as after the first signal
            os.kill(os.getpid(), signal.SIGTERM)
            exit_codes.append(codes.get(timeout=60))

    engine = make_engine(tmp_path / "run", interrupt)
    display_run(engine, plain=True, as_json=False)
    assert exit_codes == [130]
    assert "Aborted. Resume with: evokernel resume" in capfd.readouterr().err


def test_infrastructure_failure_prints_resume_command(tmp_path: Path) -> None:
    def fail(state: State) -> None:
        raise InfraError("the service is down")

    with pytest.raises(InfraError, match="evokernel resume"):
        display_run(make_engine(tmp_path / "run", fail), plain=True, as_json=False)


@pytest.mark.slow(one_in=5)
def test_verify_tunes_a_file_and_writes_it(call: Call, task_file: Path, tmp_path: Path) -> None:
    """The synthetic clock gives every text another latency, so that some value of the constant is the fastest."""
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text(f"constexpr int UNUSED = 1;  // tune: UNUSED = 1 | 2 | 3\n{KERNEL}")
    options = ("--task", task_file, "--set", "clock=synthetic", "--set", "protocol=paper", "--tune")
    record = call("verify", kernel, *options, "--out", tmp_path / "tuned.cpp", "--json").json
    tuning = record["outcome"]["tuning"]
    assert len([trial for trial in tuning["trials"] if trial["stage"] == "search"]) == 2
    assert record["latency_us"] <= tuning["default_us"]
    value = tuning["chosen"]["UNUSED"]
    assert (tmp_path / "tuned.cpp").read_text() == kernel.read_text().replace("UNUSED = 1;", f"UNUSED = {value};")
    kernel.write_text(KERNEL)
    result = call("verify", kernel, *options)
    assert (result.code, result.err.splitlines()[-1].partition(".")[0]) == (2, "error: the kernel declares no tunables")
    kernel.write_text(f"// tune: A = fast\n{KERNEL}")
    assert call("verify", kernel, *options).err.startswith("error: kernel.cpp:1: `// tune: A = fast`: write")
    assert call("verify", kernel, "--task", task_file, "--out", tmp_path / "x").err.startswith("error: --out writes the kernel")
