"""A real run through the program, and every command on what it leaves behind."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_run
import pytest
from cli_calls import KERNEL, TASK, Call, Said

from evokernel.cli.kernel_files import written_in
from evokernel.cli.run_lifecycle import drive
from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Outcome, Reply, Stage, State
from evokernel.core.run import Run
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
    if missing := make_plugin("backend", "cpp").missing():
        pytest.skip(missing)
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def made(home: Path, task_file: Path, script: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Said:
    """What `run --json` said; made once, remembered in the folder."""
    monkeypatch.chdir(home)
    kept = home / "said.json"
    if not kept.exists():
        settings = ["--set", f"generator.folder={script}", "--workers", 1, "--budget", 2, "--out", "runs/one", "--memory", "bank.db"]
        said = call("run", "--backend", "cpp", "--tasks", task_file, "--generator", "from_files", "--policy", "passk", *settings, "--json")
        kept.write_text(json.dumps(said))
    return Said(*json.loads(kept.read_text()))


def test_run_ends_with_one_object(made: Said) -> None:
    assert made.code == 0, made.err
    found = made.json
    for name, kind in SUMMARY.items():
        assert found[name] is None if kind is None else isinstance(found[name], kind), name
    assert (found["tasks"], found["compiled"], found["feasible"], found["feasible_round1"]) == (1, 1, 1, 0)
    assert found["failures"] == {"mismatch": 1}
    assert found["finished"]
    assert found["per_task"][0]["first_round"] == 2
    assert Path(found["report"]).is_file()


def test_run_tells_what_will_happen_and_each_attempt(made: Said) -> None:
    lines = made.err.splitlines()
    assert lines[0].startswith("1 task × 2 attempts, backend cpp, generator from_files, policy passk, memory bank.db (")
    assert lines[1].startswith("[1/2] double  draft   fail check mismatch: ")
    assert lines[2].startswith("-- round 1: 1 of 1 compiled, 0 of 1 correct; failures: mismatch 1; cost: none")
    assert lines[3].startswith("[2/2] double  draft   ok ")
    assert "1 of 1 correct" in lines[4]


def test_resume_of_a_finished_run_says_so(made: Said, call: Call) -> None:
    said = call("resume", "runs/one", "--json")
    assert said.code == 0
    assert "is complete (2 attempts)" in said.err
    assert said.json["attempts"] == 2


def test_resume_with_a_larger_budget_goes_on(made: Said, call: Call) -> None:
    shutil.copytree("runs/one", "runs/more")
    said = call("resume", "runs/more", "--budget", 3, "--plain")
    assert said.code == 0, said.err
    assert "resuming: 2 of 3 attempts are there" in said.out
    assert "[3/3] double" in said.out
    assert "[2/3]" not in said.out
    assert "evokernel resume" not in said.out.splitlines()[-1]
    assert len(Run.open(Path("runs/more")).attempts()) == 3


def test_report_of_the_latest_run_and_the_list(made: Said, call: Call) -> None:
    said = call("report", "runs/one", "--out", "page.html")
    assert said.code == 0, said.err
    assert "first→best" in said.out
    assert "<svg" in Path("page.html").read_text()
    listed = {row["folder"]: row for row in call("report", "--list", "--json").json}
    assert listed["runs/one"]["state"] == "finished"
    assert listed["runs/one"]["correct"] == 1
    assert "runs/one" in call("report", "--list").out
    assert call("report", "--json").json["tasks"] == 1


def test_a_run_keeps_its_bank_wherever_it_is_called_from(made: Said, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("runs/one").absolute()
    monkeypatch.chdir(tmp_path)
    said = call("resume", folder, "--json")
    assert said.code == 0, said.err
    assert call("report", folder, "--out", "page.html", "--json").err == ""
    assert not list(tmp_path.glob("*.db"))


def test_a_class_in_the_working_folder_is_found_and_hides_nothing(task_file: Path, tmp_path: Path) -> None:
    """From a process of its own: the installed program does not have the working folder on its path."""
    (tmp_path / "mine.py").write_text("from evokernel.policies.passk import plugin as Mine\n")
    (tmp_path / "random.py").write_text("raise SystemExit('hides the library')\n")
    (tmp_path / "replies" / "double").mkdir(parents=True)
    more = ["--policy", "mine:Mine", "--generator", "from_files", "--set", "generator.folder=replies", "--budget", "1", "--fresh", "--json"]
    done = subprocess.run(
        [PROGRAM, "run", "--backend", "cpp", "--tasks", task_file, *more], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policy"] == "mine:Mine"


def test_another_backend_stands_in_for_the_default_and_it_is_said(
    home: Path, task_file: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.missing", lambda self: "no jax: pip install it")
    (tmp_path / "replies" / "double").mkdir(parents=True)
    more = ["--generator", "from_files", "--set", "generator.folder=replies", "--budget", 1, "--fresh", "--json"]
    said = call("run", "--tasks", task_file, *more)
    assert said.code == 0, said.err
    first, second, *_ = said.err.splitlines()
    assert first == "backend 'pallas' cannot work here: no jax: pip install it. Going on with backend 'cpp'."
    assert second.startswith("1 task × 1 attempt, backend cpp, ")
    assert said.json["backend"] == "cpp"
    assert Run.open(Path(said.json["folder"])).config.backend == {"name": "cpp"}
    assert "can work here, with backend cpp." in call("doctor").out
    assert {check["name"]: check["state"] for check in call("doctor", "--json").json["checks"]}["backend pallas"] == "optional"
    said = call("run", "--backend", "pallas", "--tasks", task_file)
    assert (said.code, said.err) == (2, "error: backend 'pallas' cannot work here: no jax: pip install it\n")


def test_a_kernels_file_tells_its_backend(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kernel.cpp").write_text("")
    assert written_in(tmp_path / "mine.py") == "pallas"
    assert written_in(tmp_path / "mine.cpp") == written_in(tmp_path / "folder") == "cpp"
    assert written_in(tmp_path / "mine.txt") == "pallas"


def test_verify_calls_an_estimate_one(call: Call, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel.py").write_text("def kernel(x): ...\n")
    seen: list[str] = []

    def judged(config: RunConfig, *_: object) -> Outcome:
        seen.append(config.plugin_name("backend"))
        return made_run.estimated(50.0)

    monkeypatch.setattr("evokernel.cli.verify.judge", judged)
    said = call("verify", tmp_path / "kernel.py", "--task", task_file, "--baseline", "compile")
    lines = {line[2:].partition("  ")[0]: line for line in said.out.splitlines() if line.startswith("  ")}
    assert said.code == 0, said.err
    assert lines["latency"].endswith("  50.0 µs, estimate (schedule)")
    assert lines["XLA"].endswith("  100 µs, speed-up 2.00×")
    assert "20.0 µs" in lines["floor"]
    assert "bound by hbm" in lines
    assert said.err == "note: there is no time of torch.compile to go with times that are estimate (schedule)\n"
    found = call("verify", tmp_path / "kernel.py", "--task", task_file, "--json").json
    assert found["best_baseline"] == {"name": "xla", "us": 100.0, "speedup": 2.0}
    assert (found["clock"], found["baseline_us"], found["floor_us"], found["bottleneck"]) == (
        "estimate (schedule)",
        {"xla": 100.0},
        20.0,
        "hbm",
    )
    call("verify", tmp_path / "kernel.py", "--task", task_file, "--backend", "cpp")
    assert seen == ["pallas", "pallas", "cpp"]


def test_a_run_of_estimates_is_labelled_wherever_it_is_told(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks, _ = made_run.made()
    attempts = [made_run.attempt(tasks[0], n, made_run.estimated(50.0 - n)) for n in range(2)]
    made_run.write_run(tmp_path / "run", tasks, attempts, backend={"name": "pallas"})
    for command in (("report", "run"), ("export", "run", "--out", "kernels")):
        said = call(*command)
        assert said.code == 0, said.err
        assert "Times: estimate (schedule)" in said.out
        assert "XLA" in said.out
        assert "PyTorch eager" not in said.out
    assert "| XLA | speed-up |" in (tmp_path / "kernels" / "README.md").read_text()
    found = call("report", "run", "--json").json
    assert (found["clock"], found["baseline"]) == (["estimate (schedule)"], ["xla"])
    wanted = {"baseline": "xla", "baseline_us": 100.0, "floor_us": 20.0, "bottleneck": "hbm"}
    assert wanted.items() <= found["per_task"][0].items()
    assert {name: found["per_task"][1][name] for name in wanted} == dict.fromkeys(wanted)


def test_odd_tasks_are_named(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "noise.py"
    file.write_text(TASK.replace("ROWS, COLS)]", "*map(int, '64 48'.split()))]").replace("x * 2 + 1", "x + torch.randn_like(x)"))
    shown = call("tasks", "show", file).out
    assert "no kernel can match it" in shown
    assert "checked at one size only" in shown
    assert "a size that is not shown" not in shown


def test_export(made: Said, call: Call) -> None:
    found = call("export", "runs/one", "--out", "kernels", "--json").json
    assert found["wrapped"]
    assert [Path(kernel["folder"]).name.endswith("double") for kernel in found["kernels"]] == [True]
    assert (Path(found["kernels"][0]["folder"]) / "kernel.cpp").read_text() == KERNEL
    assert "python -m pytest kernels" in call("export", "runs/one", "--out", "kernels").out


def test_memory_of_the_run(made: Said, call: Call, tmp_path: Path) -> None:
    bank = ("--memory", "bank.db")
    stats = call("memory", "stats", *bank, "--json").json
    assert "items" in call("memory", "stats", *bank).out
    traces = call("memory", "list", "--kind", "trace", *bank, "--json").json
    assert [trace["feasible"] for trace in traces[:2]] == [False, True]
    assert stats["kinds"]["trace"] == len(traces)
    right = traces[1]["id"]
    assert right in call("memory", "list", "--kind", "trace", *bank).out
    shown = call("memory", "show", right, *bank, "--json").json
    assert shown["item"]["code"] == KERNEL
    assert "out[i] = x[i] * 2 + 1" in call("memory", "show", right, *bank).out
    hits = call("memory", "search", "x * 2 + 1 rows and columns", "--limit", 3, *bank, "--json").json
    assert len(hits) == 3
    assert hits[0]["similarity"] >= hits[2]["similarity"]
    pack = tmp_path / "pack.jsonl"
    moved = call("memory", "export", pack, *bank, "--json").json
    other = ("--memory", tmp_path / "other.db")
    assert call("memory", "import", pack, *other, "--json").json["items"] == moved["items"] == stats["items"]
    misspelt = call("memory", "export", pack, "--without-task", traces[0]["task"] + "x", *bank)
    assert f"did you mean '{traces[0]['task']}'" in misspelt.err
    assert call("memory", "list", "--task", "no/such", *bank).out == "no such items\n"
    gone = call("memory", "revoke", right, *other, "--json").json
    assert right in gone["items"]
    assert right not in [trace["id"] for trace in call("memory", "list", "--kind", "trace", *other, "--json").json]


def test_verify_passes_what_is_right_and_explains_what_is_not(made: Said, call: Call, task_file: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "mine.cpp"
    kernel.write_text(KERNEL)
    said = call("verify", kernel, "--task", task_file)
    assert said.code == 0, said.out + said.err
    gates = ("screen", "build", "check", "sanitize", "time")
    assert [line.split()[:2] for line in said.out.splitlines()[1:6]] == [["✓", gate] for gate in gates]
    assert "PyTorch eager" in said.out
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kernel.cpp").write_text("int nothing;\n")
    said = call("verify", tmp_path / "folder", "--task", task_file, "--json")
    assert said.code == 1
    assert not said.json["feasible"]
    assert said.json["reason"]
    assert said.json["latency_us"] is None
    assert said.json["speedup"] is None


def test_tasks_backends_doctor(made: Said, call: Call, task_file: Path) -> None:
    [row] = call("tasks", task_file, "--json").json
    assert row["outputs"] == ["out:float32[64,48]"]
    assert row["task"] in call("tasks", task_file).out
    [shown] = call("tasks", "show", task_file, "--backend", "cpp", "--json").json
    assert 'extern "C" void kernel(' in shown["entry"]
    assert "held_out" not in shown["sizes"]
    assert "entry point (cpp)" in call("tasks", "show", task_file, "--backend", "cpp").out
    assert "entry point (pallas):\n\ndef kernel(" in call("tasks", "show", task_file).out
    assert {"backend": "cpp", "ready": True}.items() <= next(b for b in call("backends", "--json").json if b["backend"] == "cpp").items()
    assert "cpp" in call("backends").out
    checked = call("doctor", "--memory", "bank.db", "--json")
    assert checked.code == 0
    assert checked.json["ready"]
    assert {"python", "torch", "cores", "disk", "memory", "model keys"} <= {check["name"] for check in checked.json["checks"]}


@pytest.mark.parametrize(("found", "state", "detail"), [(True, "ok", "timed on it"), (False, "optional", "times are estimates")])
def test_doctor_says_whether_there_is_a_tpu(found: bool, state: str, detail: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.missing", lambda self: None)
    monkeypatch.setattr("evokernel.backends.pallas.backend.PallasBackend.versions", lambda self: {"chip": "v5e", "jax": "1"})
    monkeypatch.setattr("evokernel.backends.pallas.backend.present", lambda: found)
    checks = {check["name"]: check for check in call("doctor", "--json").json["checks"]}
    assert checks["backend pallas"]["detail"] == "chip: v5e; jax: 1"
    assert checks["tpu"]["state"] == state
    assert detail in checks["tpu"]["detail"]


def test_doctor_says_what_the_machine_was_measured_to_do(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    assert "ceilings" not in call("doctor").out
    (tmp_path / "ceilings").mkdir()
    (tmp_path / "ceilings" / "a.json").write_text('{"memory_gbs": 12, "cache_gbs": 50, "gflops": 40}')
    assert "12 GB/s from memory, 50 from cache, 40 GFLOP/s on one core" in call("doctor").out
    (tmp_path / "ceilings" / "a.json").write_text("{ half")
    assert "cannot be read" in call("doctor").out


def test_doctor_names_keys_never_their_values(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    said = call("doctor")
    assert "OPENAI_API_KEY" in said.out
    assert "secret" not in said.out + said.err


class Parts:
    """An engine's parts that answer at once; `write` calls back first."""

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


def engine(folder: Path, before: Any) -> Engine:
    run = made_run.write_run(folder, made_run.made()[0], [], concurrency=1)
    parts: Any = Parts(before)
    return Engine(run, parts, parts, parts, parts, lambda *_: [])


def test_first_interrupt_finishes_and_says_how_to_resume(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt(state: State) -> None:
        if state.next_id == "made/softmax/0":
            os.kill(os.getpid(), signal.SIGINT)
            assert made.stop.wait(60)

    made = engine(tmp_path / "run", interrupt)
    assert drive(made, plain=True, as_json=False) == 130
    out, err = capfd.readouterr()
    assert "finishing 1 attempt in flight; again to abort" in err
    assert f"go on with: evokernel resume {tmp_path / 'run'}" in out
    assert [attempt.id for attempt in Run.open(tmp_path / "run").attempts()] == ["made/relu/0", "made/softmax/0"]
    again = engine_again(tmp_path / "run")
    assert drive(again, plain=True, as_json=False) == 0
    assert len(Run.open(tmp_path / "run").attempts()) == 9


def engine_again(folder: Path) -> Engine:
    parts: Any = Parts(lambda state: None)
    return Engine(Run.open(folder), parts, parts, parts, parts, lambda *_: [])


def test_second_interrupt_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()
    monkeypatch.setattr("evokernel.cli.run_lifecycle.os._exit", codes.put)
    seen: list[int] = []

    def interrupt(state: State) -> None:
        if not seen:
            made.stop.set()  # as the first signal leaves it
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(codes.get(timeout=60))

    made = engine(tmp_path / "run", interrupt)
    drive(made, plain=True, as_json=False)
    assert seen == [130]
    assert "aborted; go on with: evokernel resume" in capfd.readouterr().err


def test_infrastructure_trouble_says_how_to_resume(tmp_path: Path) -> None:
    def down(state: State) -> None:
        raise InfraError("the service is down")

    with pytest.raises(InfraError, match="evokernel resume"):
        drive(engine(tmp_path / "run", down), plain=True, as_json=False)
