"""Verifies candidates with a fake toolkit on PATH: on its NPU, and with the simulator if it has none."""

import json
import os
import shutil
import statistics
from contextlib import nullcontext
from pathlib import Path

import pytest
from cann_toolkit import FAKE, Toolkit
from time_limits import HANG_S

from evokernel import backends
from evokernel.backends.ascendc.backend import AscendcBackend
from evokernel.backends.ascendc.cann import detect
from evokernel.backends.ascendc.cann.call import BUILD_RECORD
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, TIMING_FOLDER
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verifier, verify

SAMPLES = Path(next(iter(backends.__path__))) / "ascendc" / "samples"
TEXT = (SAMPLES / "good" / "kernel.asc").read_text()
GATES = ["screen", "build", "check", "time"]


@pytest.fixture(scope="module")
def task():
    return load_tasks(str(SAMPLES / "task.py"))[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A toolkit with an NPU, shared by all tests, because compiling it takes longest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVOKERNEL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))  # as for every single test
        made = Toolkit(tmp_path_factory.mktemp("toolkit") / "cann", patched)
        made.add_npu(patched)
        yield made


@pytest.fixture
def toolkit(installed, monkeypatch):
    """The same toolkit, with working tools."""
    installed.modes()
    monkeypatch.setattr(detect, "INSTALLATIONS", {})
    return installed


@pytest.fixture
def toolkit_without_npu(toolkit):
    toolkit.modes(npu_smi="silent")
    return toolkit


def verify_candidate(task, text=TEXT, files=None, **settings):
    candidate = Candidate(backend="ascendc", files=files or {"kernel.asc": text})
    return verify(Job(backend="ascendc", settings=settings, task=task, candidate=candidate, timeout_s=120))


def verify_failure(task, text=TEXT, **settings):
    found = verify_candidate(task, text, **settings).failure
    assert found is not None
    return found


@pytest.fixture(scope="module")
def built(installed, task, tmp_path_factory):
    """Outcome and folder of a good kernel, with a path to other operators in the environment."""
    installed.modes()
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(detect, "INSTALLATIONS", {})
        patched.setattr(verifier, "scratch_folder", lambda: nullcontext(folder))
        patched.setenv("ASCEND_CUSTOM_OPP_PATH", "/somewhere/else")
        return verify_candidate(task), folder


@pytest.fixture
def good(built):
    return built[0]


@pytest.fixture
def workdir(built):
    shutil.rmtree(built[1] / TIMING_FOLDER / "profile", ignore_errors=True)
    return built[1]


@pytest.fixture
def backend(toolkit):
    return AscendcBackend()


@pytest.mark.slow(one_in=5)
def test_good_kernel_passes_on_the_npu(good):
    assert [gate.gate for gate in good.gates if gate.passed] == GATES
    assert good.clock == "device (msprof)"
    assert len(good.samples_us) == LAUNCHES - 1
    assert good.baseline_us == {}  # a measurement has no estimated baseline
    assert good.versions["toolchain"] == "cann"
    assert (good.versions["cann"], good.versions["npu"], good.versions["chip"]) == ("8.0.RC3", "2 x 910B2", "910B2")
    assert "simulator" not in good.versions
    assert [line for line in good.skipped_checks if "sandbox" not in line] == [
        "sanitizer: the NPU has no memory checks; verify with backend.toolchain=simulator, which has them"
    ]


@pytest.mark.slow(one_in=5)
def test_profile_has_the_columns_of_the_profiler(good):
    figures = good.profile.figures
    assert figures["Task Duration(us)"] == pytest.approx(statistics.median(good.samples_us), rel=1e-3)
    assert {"aiv_vec_ratio", "aiv_mte2_ratio", "roofline_us", "writing_us", "Block Dim"} <= set(figures)
    assert good.profile.bottleneck in ("scalar", "vector", "memory", "store", "cube", "latency")


def test_npu_times_are_not_repeatable(toolkit):
    assert AscendcBackend().capabilities.is_repeatable is False
    assert AscendcBackend(toolchain="simulator").capabilities.is_repeatable is True


@pytest.mark.slow(one_in=5)
def test_wrong_values_fail_the_check_gate(toolkit, task):
    toolkit.modes(bisheng="stub")
    found = verify_failure(task, TEXT.replace("Add(y, y, shift, columns)", "Sub(y, y, shift, columns)"))
    assert (found.gate, found.reason) == ("check", "mismatch")


@pytest.mark.slow(one_in=5)
def test_error_on_a_core_fails_the_check_gate(toolkit, task):
    toolkit.modes(bisheng="stub")
    found = verify_failure(task, TEXT.replace("DataCopyPad(outGm[row * columns], y", "DataCopyPad(outGm[row * columns + 1], y"))
    assert (found.gate, found.reason) == ("check", "out_of_bounds"), found.detail
    assert "507035" in found.detail
    assert "evokernel-verify" not in found.detail


def test_unknown_name_fails_the_build_gate(toolkit, task):
    found = verify_failure(task, TEXT.replace("LeakyRelu(", "LeakyRule("))
    assert (found.gate, found.reason) == ("build", "compile_error")
    kernel = TEXT[TEXT.index("// file: op_kernel.cpp") :].splitlines()[1:]
    line = next(number for number, text in enumerate(kernel, 1) if "LeakyRelu(" in text)
    assert found.detail.startswith(f"op_kernel.cpp:{line}:")
    assert "error:" in found.detail.splitlines()[0]


@pytest.mark.parametrize(
    ("modes", "reason", "words"),
    [
        ({"build": "fail:kernel-undeclared"}, "compile_error", "op_kernel.cpp:31:14: error: no member named 'Maximum'"),
        ({"build": "silent"}, "compile_error", "without a message"),
        ({"build": "hang"}, "build_timeout", "within 3 s"),
        ({"build": "quiet-failure"}, "compile_error", "Softmax"),
    ],
)
def test_failing_build_fails_the_build_gate(modes, reason, words, toolkit, task):
    toolkit.modes(bisheng="stub", **modes)
    found = verify_failure(task, build_timeout_s=3 if reason == "build_timeout" else HANG_S)
    assert (found.gate, found.reason) == ("build", reason)
    assert words in found.detail


def test_tool_failure_is_not_the_candidates_fault(toolkit, task):
    toolkit.modes(bisheng="stub", build="installer-fails")
    with pytest.raises(InfraError, match="install the operator"):
        verify_candidate(task)


def test_project_with_binding_needs_the_simulator(toolkit, task):
    six = SAMPLES / "good-six-parts"
    if not six.is_dir():
        pytest.skip("no sample in six parts")
    with pytest.raises(UserError, match=r"backend\.toolchain=simulator"):
        verify_candidate(task, files={"kernel.txt": next(six.iterdir()).read_text()})


def test_build_ignores_other_installed_operators(workdir):
    for called in ("msopgen", "build", "bisheng"):
        record = next(workdir.rglob(f"{called}.called.json"))
        assert "ASCEND_CUSTOM_OPP_PATH" not in json.loads(record.read_text())["environment"], called
    variables = json.loads((workdir / BUILD_RECORD).read_text())["variables"]
    assert variables["ASCEND_CUSTOM_OPP_PATH"].startswith(str(workdir))


def test_candidate_process_gets_device_access(backend, workdir, toolkit):
    given = backend.device_access(workdir)
    assert str(toolkit.home) in given.readable
    assert given.variables["ASCEND_HOME_PATH"] == str(toolkit.home)
    assert given.variables["LD_LIBRARY_PATH"].startswith(str(workdir))
    assert all(name.startswith("ASCEND_") or name == "LD_LIBRARY_PATH" for name in given.variables)
    assert AscendcBackend(toolchain="simulator").device_access(workdir) is None


@pytest.mark.parametrize("variant", ["na", "extra", "order", "newer", "two-ops", "summary", "details"])
def test_tables_of_other_versions_are_read(variant, backend, workdir, toolkit, good):
    toolkit.modes(msprof=variant)
    found = backend.npu_mode.pipeline.profile_order(workdir, workdir / TIMING_FOLDER)
    assert statistics.median(found.duration_us) == pytest.approx(statistics.median(good.samples_us))


def test_additional_launches_in_the_tables_are_refused(backend, workdir):
    """A table that the candidate's own process left is no measurement."""
    profile = workdir / TIMING_FOLDER / "profile"
    profile.mkdir()
    (profile / "OpBasicInfo.csv").write_text("Op Name,Op Type,Task Duration(us),Block Dim\nKernelCustom_1,KernelCustom,0.001,48\n")
    with pytest.raises(CandidateError, match=f"{LAUNCHES + 1} launches, but the worker made only {LAUNCHES}"):
        backend.npu_mode.pipeline.profile_order(workdir, workdir / TIMING_FOLDER)


def test_failing_profiler_is_an_infra_error(backend, workdir):
    """The worker reported success."""
    (workdir / TIMING_FOLDER / "profile" / "OPPROF_20260105102231_ABCDEFGH").mkdir(parents=True)
    with pytest.raises(InfraError, match="The profiler failed"):
        backend.npu_mode.pipeline.profile_order(workdir, workdir / TIMING_FOLDER)


@pytest.mark.slow(one_in=5)
def test_torch_baseline_on_the_npu(backend, workdir, toolkit, task, tmp_path, monkeypatch):
    (tmp_path / "torch_npu").symlink_to(FAKE / "torch_npu")
    monkeypatch.syspath_prepend(str(tmp_path))
    (toolkit.home / "card").touch()
    found = backend.estimate_latency(task, workdir, "")
    (toolkit.home / "card").unlink()
    assert len(found.baseline_us["torch"]) == len(found.samples_us)
    assert all(us > 0 for us in found.baseline_us["torch"])


def test_lost_npu_is_an_infra_error(backend, workdir, toolkit):
    """The candidate process may falsely report a lost NPU, so the backend checks the NPU itself."""
    error = CandidateError("killed", "the kernel's process says that the machine failed")
    candidate = Candidate(backend="ascendc", files={"kernel.asc": TEXT})
    assert backend.explain_failure(candidate, workdir, error) is error
    os.rename(toolkit.home / "lib64", toolkit.home / "gone")
    try:
        with pytest.raises(InfraError, match="NPU 0 is lost"):
            backend.explain_failure(candidate, workdir, error)
    finally:
        os.rename(toolkit.home / "gone", toolkit.home / "lib64")


@pytest.mark.parametrize(
    ("toolchain", "npu", "words"),
    [
        ("auto", "910B2", None),
        ("auto", "910B2C", None),
        ("auto", "910B3", "backend.chip=910B3"),
        ("auto", "310P3", None),
        ("cann", "310P3", "backend.toolchain=simulator"),
        ("cann", "910B2", None),
        ("simulator", "910B3", None),
    ],
)
def test_unavailable_reason_with_an_npu(toolchain, npu, words, toolkit, monkeypatch):
    found = toolkit.detect()
    monkeypatch.setattr(detect, "detect_installation", lambda: found._replace(versions=found.versions | {"npu": f"2 x {npu}"}))
    missing = AscendcBackend(toolchain=toolchain).unavailable_reason()
    assert missing is None if words is None else words in missing
    assert (AscendcBackend(toolchain="auto").npu_mode is None) == (npu == "310P3")


def test_missing_toolkit_is_reported(monkeypatch):
    nothing = detect.inspect_environment({"PATH": os.defpath}, ("/opt/nobody/set_env.sh",))
    monkeypatch.setattr(detect, "detect_installation", lambda: nothing)
    assert "set_env.sh" in AscendcBackend(toolchain="cann").unavailable_reason()
    assert AscendcBackend(toolchain="auto").unavailable_reason() is None
    assert AscendcBackend(toolchain="auto").cann_mode is None


def test_simulator_needs_no_detection(monkeypatch):
    def never():
        raise AssertionError("CANN was searched for")

    monkeypatch.setattr(detect, "detect_installation", never)
    backend = AscendcBackend(toolchain="simulator")
    assert (backend.unavailable_reason(), backend.capabilities.is_repeatable, backend.npu_mode) == (None, True, None)


def test_doctor_lists_cann_npu_and_simulator(toolkit, capsys):
    from evokernel.cli.main import main

    with pytest.raises(SystemExit):
        main(["doctor"])
    with_npu = capsys.readouterr().out
    toolkit.modes(npu_smi="silent")
    detect.INSTALLATIONS.clear()
    with pytest.raises(SystemExit):
        main(["doctor"])
    toolchain = capsys.readouterr().out
    assert f"8.0.RC3 at {toolkit.home}" in with_npu
    assert "2 x 910B2; kernels run on it and msprof times them" in with_npu
    assert "toolchain: cann" in with_npu
    assert "install the driver" in toolchain
    assert "none; times are estimates of the simulator; bisheng" in toolchain
    assert "toolchain: simulator" in toolchain
    assert "Ascend C simulator" in toolchain


@pytest.mark.slow(one_in=5)
def test_bisheng_checks_kernels_without_an_npu(toolkit_without_npu, task):
    toolkit_without_npu.modes(npu_smi="silent", bisheng="fail:kernel-undeclared")
    found = verify_failure(task)
    assert (found.gate, found.reason) == ("build", "compile_error")
    assert "Maximum" in found.detail


@pytest.mark.slow(one_in=5)
def test_auto_without_an_npu_uses_the_simulator(toolkit_without_npu, task):
    toolkit_without_npu.modes(npu_smi="silent", bisheng="stub")
    outcome = verify_candidate(task, f"{TEXT}// a unique text, because outcomes on the simulator are cached\n")
    assert outcome.feasible, outcome.failure
    assert outcome.clock == "estimate (simulator)"
    assert (outcome.versions["toolchain"], outcome.versions["cann"]) == ("simulator", "8.0.RC3")


@pytest.mark.slow
def test_cann_simulator_times_what_our_simulator_runs(toolkit_without_npu, task, monkeypatch):
    """The simulated program itself is compiled in test_ascendc_cann_simulate.py; here bisheng's part is left out."""
    from evokernel.backends.ascendc.cann import simulate

    recorded = {}

    def timed(project, found, soc, arguments, tiled, workdir, environment, timeout_s):
        recorded.update(project=project, soc=soc, names=[array.name for array in arguments.inputs], blocks=tiled.block_dim)
        return simulate.Measurement((21.0,), tiled.block_dim, {"vector_cycles": 900.0}, None)

    toolkit_without_npu.modes(npu_smi="silent", bisheng="stub")
    monkeypatch.setattr(simulate, "time_on_simulator", timed)
    outcome = verify_candidate(task, toolchain="cann")
    assert outcome.feasible, outcome.failure
    assert (outcome.clock, outcome.samples_us, outcome.baseline_us) == ("estimate (CANN simulator)", (21.0,), {})
    assert recorded["project"].op == "KernelCustom"
    assert (recorded["soc"], recorded["names"], recorded["blocks"]) == ("Ascend910B2", ["x", "scale", "shift"], 48)
    assert outcome.profile.figures["vector_cycles"] == 900


@pytest.mark.slow
def test_complete_run_on_the_npu(toolkit, tmp_path, monkeypatch, capsys):
    from evokernel.cli.main import main

    toolkit.modes(bisheng="stub")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script" / "task").mkdir(parents=True)
    (tmp_path / "script" / "task" / "1.asc").write_text(TEXT)
    words = ["run", "--backend", "ascendc", "--tasks", str(SAMPLES / "task.py"), "--generator", "from_files", "--policy", "passk"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--set", "generator.folder=script", "--budget", "1", "--workers", "1", "--out", "run", "--memory", "bank.db"])
    said = capsys.readouterr()
    assert not ended.value.code, said
    attempt = json.loads((tmp_path / "run" / "attempts.jsonl").read_text().splitlines()[0])
    assert attempt["outcome"]["clock"] == "device (msprof)"
    assert all(gate["passed"] for gate in attempt["outcome"]["gates"])
    assert "time on an Ascend NPU (msprof)" in said.out + said.err
