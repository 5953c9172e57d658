"""`evokernel check`: exit codes and reports for right, wrong, slower, revoked and unknown kernels; the action runs the same command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from cli_helpers import KERNEL, TASK, Call

from evokernel.app.kernel_check import CheckPlan, KernelFile, check_kernels
from evokernel.app.verification_pool import PlannedVerification, VerificationPool
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Job, Outcome
from evokernel.core.run import Run
from evokernel.executors.worker_pool import WorkerProcess
from evokernel.reports.export import export_kernels
from evokernel.reports.kernel_check import Status
from evokernel.verifier.timing import make_synthetic_timing

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with one correct kernel, its time invented."""
    from evokernel.cli.main import main

    here = tmp_path_factory.mktemp("here")
    (here / "double.py").write_text(TASK)
    (here / "script" / "double").mkdir(parents=True)
    (here / "script" / "double" / "1.cpp").write_text(KERNEL)
    settings = ["protocol=paper", "clock=synthetic", "budget=1", "fresh=true", "workers=1", f"generator.folder={here / 'script'}"]
    options = [option for setting in settings for option in ("--set", setting)]
    with pytest.raises(SystemExit):
        main(
            [
                "run",
                "--tasks",
                str(here / "double.py"),
                "--backend",
                "cpp",
                "--generator",
                "from_files",
                "--out",
                str(here / "run"),
                *options,
            ]
        )
    return Run.open(here / "run")


def variant(run: Run, is_slower: bool) -> str:
    """A correct kernel whose invented time is higher or lower than that of the run's kernel."""
    [task], [attempt] = run.tasks, run.attempts()
    for number in range(100):
        text = f"{KERNEL}// {number}\n"
        kernel = Candidate(backend="cpp", files={"kernel.cpp": text})
        job = Job(backend="cpp", task=task, candidate=kernel, incumbent=attempt.candidate)
        timing = make_synthetic_timing(job)
        ratio = min(timing.samples_us) / max(timing.incumbent_us) if is_slower else max(timing.samples_us) / min(timing.incumbent_us)
        if (ratio > 1.1) if is_slower else (ratio < 0.9):
            return text
    raise AssertionError("no such kernel")


def test_a_kernel_fails_if_it_is_wrong_or_slower(call: Call, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"faster": variant(run, False), "slower": variant(run, True), "wrong": KERNEL.replace("+ 1", "+ 2"), "syntax": "int x = ;\n"}
    for name, source in sources.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "double.cpp").write_text(source)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(tmp_path)
    result = call("check", *sources, "--against", run.folder, "--junit", "new/check.xml", "--json")
    assert result.code == 1, result.err
    records = result.json["kernels"]
    reasons = [None, "slower", "mismatch", "compile_error"]
    assert [(record["file"], record["reason"]) for record in records] == list(zip([f"{name}/double.cpp" for name in sources], reasons))
    assert [record["status"] for record in records] == ["passed", "failed", "failed", "failed"]
    assert [record["slowdown"] is None for record in records] == [False, False, True, True]
    assert [record["measurements"] for record in records] == [1, 2, 0, 0]
    assert "torch" in {entry.get("name") for entry in ET.parse("new/check.xml").getroot().iter("property")}
    assert {record["recorded_attempt"] for record in records} == {run.attempts()[0].id}
    assert result.err.count("::error file=") == 3
    cases = list(ET.parse("new/check.xml").getroot().iter("testcase"))
    assert [child.get("type") for case in cases for child in case] == reasons
    assert Path("summary.md").read_text().startswith("### evokernel check: 4 kernels, 3 failed")


@pytest.mark.slow(one_in=3)
def test_best_kernels_exports_and_toolchain_changes(call: Call, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unchanged = call("check", "--against", run.folder, "--if-toolchain-changed")
    assert unchanged.code == 0
    assert "has not changed" in unchanged.out
    assert ", torch " in unchanged.out
    export_kernels(run, run.attempts(), tmp_path / "exp", export_all=True)
    exported = call("check", tmp_path / "exp", "--against", run.folder)
    assert exported.code == 0, exported.err
    assert "correct; equally fast" in exported.out
    monkeypatch.setattr(CheckPlan, "toolchain", {**run.environments()[-1]["versions"], "compiler": "g++ 99"})
    changed = call("check", "--against", run.folder, "--if-toolchain-changed")
    assert changed.code == 0, changed.err
    assert "g++ 99 here" in changed.out
    assert "1 kernel passed" in changed.out


@pytest.mark.parametrize(
    ("is_changed", "latencies", "status", "measured"),
    [
        (True, [200.0, 100.0], Status.PASSED, 2),
        (True, [200.0, 200.0], Status.FAILED, 2),
        (False, [200.0, 200.0, 100.0], Status.PASSED, 3),
        (False, [200.0, 200.0, 200.0], Status.FAILED, 3),
        (True, [100.0], Status.PASSED, 1),
    ],
)
def test_a_slowdown_must_be_confirmed(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_changed: bool, latencies: list[float], status: Status, measured: int
) -> None:
    recorded = run.attempts()[0]
    kernel = Candidate(backend="cpp", files={"kernel.cpp": f"{KERNEL}// new\n"}) if is_changed else recorded.candidate
    seeds: list[int] = []

    def measure(pool: VerificationPool, job: PlannedVerification, **options: object) -> Future[Outcome]:
        base = recorded.outcome.latency_us or 1.0
        samples = {"samples_us": (base * latencies[len(seeds)] / 100,) * 8, "baseline_us": recorded.outcome.baseline_us}
        pair = {"incumbent_us": (base,) * 8, "incumbent": recorded.candidate.id} if is_changed else {}
        seeds.append(job.config.seed)
        future: Future[Outcome] = Future()
        future.set_result(recorded.outcome.model_copy(update=samples | pair))
        return future

    monkeypatch.setattr(VerificationPool, "submit", measure)
    monkeypatch.setattr(CheckPlan, "toolchain_changes", ["compiler: g++ 12 in the run, g++ 13 here"])
    [check] = check_kernels(CheckPlan(run), [KernelFile(Path("double.cpp"), kernel, run.tasks[0])], 0.05)
    assert (check.status, check.comparison.measurements) == (status, measured)
    assert len(set(seeds)) == measured, "each measurement has its own inputs"


def test_revoked_kernels_fail_and_lost_workers_are_no_failure(
    call: Call, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "double.cpp").write_text(KERNEL)

    def lose_worker(*arguments: object, **options: object) -> None:
        raise InfraError("no worker answered")

    with monkeypatch.context() as patched:
        patched.setattr(WorkerProcess, "request_outcome", lose_worker)
        lost = call("check", tmp_path, "--against", run.folder, "--annotations")
    assert lost.code == 3, lost.err
    assert "::warning" in lost.out
    assert "1 not verified" in lost.out
    monkeypatch.setattr(CheckPlan, "revoked_candidates", {run.attempts()[0].candidate.id})
    revoked = call("check", tmp_path, "--against", run.folder)
    assert revoked.code == 1
    assert "revoked" in revoked.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "does not exist"),
        (["other.cpp"], "must be named after one task"),
        (["double.txt"], "takes kernel.cpp"),
        (["--max-slowdown", "5"], "Write --max-slowdown 5%"),
        (["--max-slowdown", "inf%"], "Write --max-slowdown 5%"),
        (["--set", "budgett=3"], "unknown setting"),
        (["broken"], "not the provenance of an exported kernel"),
    ],
)
def test_mistakes_get_one_line(
    call: Call, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("other.cpp", "double.txt"):
        Path(name).write_text(KERNEL)
    Path("broken").mkdir()
    Path("broken/provenance.json").write_text("[]")
    result = call("check", *arguments, "--against", run.folder)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_exports_of_another_backend_are_refused(run: Run, tmp_path: Path) -> None:
    record = {"task": run.tasks[0].id, "backend": {"name": "triton"}, "files": ["kernel.py"]}
    (tmp_path / "provenance.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="backend 'triton'"):
        CheckPlan(run).find_kernels([tmp_path])


@pytest.mark.slow(one_in=3)
def test_the_action_runs_the_command(run: Run, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in steps), "inputs reach the shell as variables only"
    assert {name for step in steps for name in step["env"].values()} == {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    (tmp_path / "double.cpp").write_text(variant(run, is_slower=True))
    (tmp_path / "a b").mkdir()
    given = {"against": str(run.folder), "kernels": "double.cpp", "junit": "a b/check.xml"}
    values = {f"${{{{ inputs.{name} }}}}": given.get(name, entry.get("default", "")) for name, entry in action["inputs"].items()}
    variables = {name: values[text] for name, text in steps[-1]["env"].items()}
    environment = os.environ | variables | {"GITHUB_ACTIONS": "true", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[-1]["run"]]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 1, process.stderr
    assert "::error file=double.cpp" in process.stdout
    assert ET.parse(tmp_path / "a b" / "check.xml").getroot().get("failures") == "1"
    unchanged = environment | {"IF_TOOLCHAIN_CHANGED": "true", "KERNELS": ""}
    process = subprocess.run(command, cwd=tmp_path, env=unchanged, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert "has not changed" in process.stdout


def test_the_example_workflow_uses_inputs_of_the_action() -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "ci" / "check-kernels.yml").read_text())
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    [step] = [step for step in workflow["jobs"]["check"]["steps"] if "evokernel@" in step.get("uses", "")]
    assert set(step["with"]) <= set(inputs)
    assert {name for name, entry in inputs.items() if entry.get("required")} <= set(step["with"])
    assert {"pull_request", "schedule"} <= set(workflow[True]), "YAML reads the key `on` as true"
