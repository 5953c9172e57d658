"""Candidates through the whole judge with a toolkit on PATH: on its card, and beside the twin where it has none."""

import json
import os
import shutil
import statistics
from contextlib import nullcontext
from pathlib import Path

import pytest
from cann_toolkit import FAKE, Toolkit

from evokernel import backends
from evokernel.backends.ascendc.backend import AscendcBackend
from evokernel.backends.ascendc.cann import detect
from evokernel.backends.ascendc.cann.call import BUILT
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, TIMED
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify import verifier, verify

SAMPLES = Path(next(iter(backends.__path__))) / "ascendc" / "samples"
TEXT = (SAMPLES / "good" / "kernel.asc").read_text()
GATES = ["screen", "build", "check", "time"]


@pytest.fixture(scope="module")
def task():
    return load(str(SAMPLES / "task.py"))[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A toolkit with a card, for all tests here: compiling what stands for it takes longest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVOKERNEL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))  # as for every single test
        made = Toolkit(tmp_path_factory.mktemp("toolkit") / "cann", patched)
        made.with_a_card(patched)
        yield made


@pytest.fixture
def toolkit(installed, monkeypatch):
    """The same, with tools that behave."""
    installed.modes()
    monkeypatch.setattr(detect, "SEEN", {})
    return installed


@pytest.fixture
def without_card(toolkit):
    toolkit.modes(npu_smi="silent")
    return toolkit


def judged(task, text=TEXT, files=None, **settings):
    candidate = Candidate(backend="ascendc", files=files or {"kernel.asc": text})
    return verify(Job(backend="ascendc", settings=settings, task=task, candidate=candidate, timeout_s=120))


def failed(task, text=TEXT, **settings):
    found = judged(task, text, **settings).failure
    assert found is not None
    return found


@pytest.fixture(scope="module")
def built(installed, task, tmp_path_factory):
    """A good kernel's verdict and folder, with a path to somebody else's operators in the shell."""
    installed.modes()
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(detect, "SEEN", {})
        patched.setattr(verifier, "scratch", lambda: nullcontext(folder))
        patched.setenv("ASCEND_CUSTOM_OPP_PATH", "/somewhere/else")
        return judged(task), folder


@pytest.fixture
def good(built):
    return built[0]


@pytest.fixture
def workdir(built):
    shutil.rmtree(built[1] / TIMED / "profile", ignore_errors=True)
    return built[1]


@pytest.fixture
def backend(toolkit):
    return AscendcBackend()


def test_a_good_kernel_on_the_card(good):
    assert [gate.gate for gate in good.gates if gate.passed] == GATES
    assert good.clock == "device (msprof)"
    assert len(good.samples_us) == LAUNCHES - 1
    assert good.baseline_us == {}  # a measurement is held against no estimate
    assert good.versions["toolchain"] == "cann"
    assert (good.versions["cann"], good.versions["npu"], good.versions["chip"]) == ("8.0.RC3", "2 x 910B2", "910B2")
    assert "twin" not in good.versions
    assert [line for line in good.without if "sandbox" not in line] == [
        "sanitizer: nobody watches memory on a card; verify with backend.toolchain=twin, which does"
    ]


def test_its_profile_has_the_profilers_columns(good):
    figures = good.profile.figures
    assert figures["Task Duration(us)"] == pytest.approx(statistics.median(good.samples_us), rel=1e-3)
    assert {"aiv_vec_ratio", "aiv_mte2_ratio", "roofline_us", "writing_us", "Block Dim"} <= set(figures)
    assert good.profile.bottleneck in ("scalar", "vector", "memory", "store", "cube", "latency")


def test_a_card_gives_other_times_again(toolkit):
    assert AscendcBackend().repeatable is False
    assert AscendcBackend(toolchain="twin").repeatable is True


def test_wrong_values(toolkit, task):
    toolkit.modes(bisheng="stub")
    found = failed(task, TEXT.replace("Add(y, y, shift, columns)", "Sub(y, y, shift, columns)"))
    assert (found.gate, found.reason) == ("check", "mismatch")


def test_an_error_on_a_core(toolkit, task):
    toolkit.modes(bisheng="stub")
    found = failed(task, TEXT.replace("DataCopyPad(outGm[row * columns], y", "DataCopyPad(outGm[row * columns + 1], y"))
    assert (found.gate, found.reason) == ("check", "out_of_bounds"), found.detail
    assert "507035" in found.detail
    assert "evokernel-judge" not in found.detail


def test_a_name_that_does_not_exist(toolkit, task):
    found = failed(task, TEXT.replace("LeakyRelu(", "LeakyRule("))
    assert (found.gate, found.reason) == ("build", "compile_error")
    kernel = TEXT[TEXT.index("// file: op_kernel.cpp") :].splitlines()[1:]
    line = next(number for number, text in enumerate(kernel, 1) if "LeakyRelu(" in text)
    assert found.detail.startswith(f"op_kernel.cpp:{line}:")
    assert "error:" in found.detail.splitlines()[0]


@pytest.mark.parametrize(
    ("modes", "reason", "words"),
    [
        ({"build": "fail:kernel-undeclared"}, "compile_error", "op_kernel.cpp:31:14: error: no member named 'Maximum'"),
        ({"build": "silent"}, "compile_error", "without a word"),
        ({"build": "hang"}, "build_timeout", "within 3 s"),
        ({"build": "quiet-failure"}, "compile_error", "Softmax"),
    ],
)
def test_a_build_that_fails(modes, reason, words, toolkit, task):
    toolkit.modes(bisheng="stub", **modes)
    found = failed(task, build_timeout_s=3)
    assert (found.gate, found.reason) == ("build", reason)
    assert words in found.detail


def test_a_tool_that_fails_for_reasons_of_its_own(toolkit, task):
    toolkit.modes(bisheng="stub", build="installer-fails")
    with pytest.raises(InfraError, match="install the operator"):
        judged(task)


def test_a_binding_of_its_own_needs_the_twin(toolkit, task):
    six = SAMPLES / "good-six-parts"
    if not six.is_dir():
        pytest.skip("no sample in six parts")
    with pytest.raises(UserError, match=r"backend\.toolchain=twin"):
        judged(task, files={"kernel.txt": next(six.iterdir()).read_text()})


def test_other_operators_do_not_reach_the_build(workdir):
    for called in ("msopgen", "build", "bisheng"):
        record = next(workdir.rglob(f"{called}.called.json"))
        assert "ASCEND_CUSTOM_OPP_PATH" not in json.loads(record.read_text())["environment"], called
    variables = json.loads((workdir / BUILT).read_text())["variables"]
    assert variables["ASCEND_CUSTOM_OPP_PATH"].startswith(str(workdir))


def test_what_the_child_is_given(backend, workdir, toolkit):
    given = backend.access(workdir)
    assert str(toolkit.home) in given.readable
    assert given.variables["ASCEND_HOME_PATH"] == str(toolkit.home)
    assert given.variables["LD_LIBRARY_PATH"].startswith(str(workdir))
    assert all(name.startswith("ASCEND_") or name == "LD_LIBRARY_PATH" for name in given.variables)
    assert AscendcBackend(toolchain="twin").access(workdir) is None


@pytest.mark.parametrize("variant", ["na", "extra", "order", "newer", "two-ops", "summary", "details"])
def test_other_versions_of_the_tables(variant, backend, workdir, toolkit, good):
    toolkit.modes(msprof=variant)
    found = backend.card.cann.measured(workdir, workdir / TIMED)
    assert statistics.median(found.duration_us) == pytest.approx(statistics.median(good.samples_us))


def test_more_launches_than_were_made(backend, workdir):
    """A table that the candidate's own process left is no measurement."""
    profile = workdir / TIMED / "profile"
    profile.mkdir()
    (profile / "OpBasicInfo.csv").write_text("Op Name,Op Type,Task Duration(us),Block Dim\nKernelCustom_1,KernelCustom,0.001,48\n")
    with pytest.raises(CandidateError, match=f"{LAUNCHES + 1} launches, and {LAUNCHES} were made"):
        backend.card.cann.measured(workdir, workdir / TIMED)


def test_a_profiler_that_fails(backend, workdir):
    """The worker said that all went well."""
    (workdir / TIMED / "profile" / "OPPROF_20260105102231_ABCDEFGH").mkdir(parents=True)
    with pytest.raises(InfraError, match="the profiler failed"):
        backend.card.cann.measured(workdir, workdir / TIMED)


def test_pytorch_on_the_card(backend, workdir, toolkit, task, tmp_path, monkeypatch):
    (tmp_path / "torch_npu").symlink_to(FAKE / "torch_npu")
    monkeypatch.syspath_prepend(str(tmp_path))
    (toolkit.home / "card").touch()
    found = backend.timed(task, workdir, "")
    (toolkit.home / "card").unlink()
    assert len(found.baseline_us["torch"]) == len(found.samples_us)
    assert all(us > 0 for us in found.baseline_us["torch"])


def test_a_card_that_is_lost(backend, workdir, toolkit):
    """A process next to a candidate may say so; the card is asked."""
    error = CandidateError("killed", "the kernel's process says that the machine failed")
    candidate = Candidate(backend="ascendc", files={"kernel.asc": TEXT})
    assert backend.told(candidate, workdir, error) is error
    os.rename(toolkit.home / "lib64", toolkit.home / "gone")
    try:
        with pytest.raises(InfraError, match="card 0 is lost"):
            backend.told(candidate, workdir, error)
    finally:
        os.rename(toolkit.home / "gone", toolkit.home / "lib64")


@pytest.mark.parametrize(
    ("toolchain", "npu", "words"),
    [
        ("auto", "910B2", None),
        ("auto", "910B2C", None),
        ("auto", "910B3", "backend.chip=910B3"),
        ("auto", "310P3", None),
        ("cann", "310P3", "backend.toolchain=twin"),
        ("cann", "910B2", None),
        ("twin", "910B3", None),
    ],
)
def test_what_is_missing_with_a_card(toolchain, npu, words, toolkit, monkeypatch):
    found = toolkit.found()
    monkeypatch.setattr(detect, "found", lambda: found._replace(versions=found.versions | {"npu": f"2 x {npu}"}))
    missing = AscendcBackend(toolchain=toolchain).unavailable_reason()
    assert missing is None if words is None else words in missing
    assert (AscendcBackend(toolchain="auto").card is None) == (npu == "310P3")


def test_a_toolkit_is_asked_for_where_there_is_none(monkeypatch):
    nothing = detect.look({"PATH": os.defpath}, ("/opt/nobody/set_env.sh",))
    monkeypatch.setattr(detect, "found", lambda: nothing)
    assert "set_env.sh" in AscendcBackend(toolchain="cann").unavailable_reason()
    assert AscendcBackend(toolchain="auto").unavailable_reason() is None
    assert AscendcBackend(toolchain="auto").cann is None


def test_the_twin_asks_for_nothing(monkeypatch):
    def never():
        raise AssertionError("CANN was looked for")

    monkeypatch.setattr(detect, "found", never)
    backend = AscendcBackend(toolchain="twin")
    assert (backend.unavailable_reason(), backend.repeatable, backend.card) == (None, True, None)


def test_doctor(toolkit, capsys):
    from evokernel.cli.main import main

    with pytest.raises(SystemExit):
        main(["doctor"])
    card = capsys.readouterr().out
    toolkit.modes(npu_smi="silent")
    detect.SEEN.clear()
    with pytest.raises(SystemExit):
        main(["doctor"])
    toolchain = capsys.readouterr().out
    assert f"8.0.RC3 at {toolkit.home}" in card
    assert "2 x 910B2; kernels run on it, and msprof times them" in card
    assert "toolchain: cann" in card
    assert "install the driver" in toolchain
    assert "none; times are the twin's estimates; bisheng" in toolchain
    assert "toolchain: twin" in toolchain
    assert "Ascend C twin" in toolchain


def test_a_second_opinion_without_a_card(without_card, task):
    without_card.modes(npu_smi="silent", bisheng="fail:kernel-undeclared")
    found = failed(task)
    assert (found.gate, found.reason) == ("build", "compile_error")
    assert "Maximum" in found.detail


def test_auto_without_a_card_is_the_twin(without_card, task):
    without_card.modes(npu_smi="silent", bisheng="stub")
    outcome = judged(task, f"{TEXT}// a text of its own: verdicts on the twin are kept\n")
    assert outcome.feasible, outcome.failure
    assert outcome.clock == "estimate (twin)"
    assert (outcome.versions["toolchain"], outcome.versions["cann"]) == ("twin", "8.0.RC3")


@pytest.mark.slow
def test_the_simulator_times_what_the_twin_runs(without_card, task, monkeypatch):
    """The simulated program itself is compiled in test_ascendc_cann_simulate.py; here bisheng's part is left out."""
    from evokernel.backends.ascendc.cann import simulate

    told = {}

    def timed(project, found, soc, arguments, tiled, workdir, environment, timeout_s):
        told.update(project=project, soc=soc, names=[array.name for array in arguments.inputs], blocks=tiled.block_dim)
        return simulate.Measured((21.0,), tiled.block_dim, {"vector_cycles": 900.0}, None)

    without_card.modes(npu_smi="silent", bisheng="stub")
    monkeypatch.setattr(simulate, "timed", timed)
    outcome = judged(task, toolchain="cann")
    assert outcome.feasible, outcome.failure
    assert (outcome.clock, outcome.samples_us, outcome.baseline_us) == ("estimate (simulator)", (21.0,), {})
    assert told["project"].op == "KernelCustom"
    assert (told["soc"], told["names"], told["blocks"]) == ("Ascend910B2", ["x", "scale", "shift"], 48)
    assert outcome.profile.figures["vector_cycles"] == 900


@pytest.mark.slow
def test_a_run_on_the_card(toolkit, tmp_path, monkeypatch, capsys):
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
