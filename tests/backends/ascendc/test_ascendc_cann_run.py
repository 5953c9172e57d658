"""Calls an installed operator in separate processes and measures it with the profiler, on a fake NPU."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cann_toolkit import FAKE, Toolkit, pair
from time_limits import HANG_S

from evokernel.backends.ascendc.cann import call, simulate
from evokernel.backends.ascendc.cann.call import BUILD_RECORD
from evokernel.backends.ascendc.cann.detect import NPU
from evokernel.backends.ascendc.cann.environment import InstalledPackage, run_environment
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, CannPipeline
from evokernel.core.errors import CandidateError, InfraError, UserError

PROCESS_SCRIPT = """
import sys
from pathlib import Path
from cann_toolkit import pair
from evokernel.backends.ascendc.cann.call import load_operator
from evokernel.core.errors import CandidateError, InfraError
{body}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """The fake runtime and an operator for it, compiled once."""
    folder = tmp_path_factory.mktemp("lib64")
    for name, sources in {"libascendcl.so": "acl.cpp", "libnnopbase.so": "tensors.cpp", "libcust_opapi.so": "plain.cpp"}.items():
        native = FAKE / "native"
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{native}", str(native / sources), "-o", str(folder / name)]
        subprocess.run([*command, *([f"-L{folder}", "-lascendcl"] if "opapi" in name else [])], check=True)
    return folder


@pytest.fixture
def toolkit(tmp_path, monkeypatch, libraries):
    made = Toolkit(tmp_path / "cann", monkeypatch)
    shutil.copytree(libraries, made.home / "lib64")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made.home / "lib64"))
    return made


def install_operator(toolkit, workdir):
    """What a build leaves, without building."""
    vendor = InstalledPackage(workdir / "opp" / "vendors" / "mine")
    vendor.library.parent.mkdir(parents=True)
    shutil.copy(toolkit.home / "lib64" / "libcust_opapi.so", vendor.library)
    variables = run_environment(workdir, toolkit.home, vendor, 0)
    built = {"op": "KernelCustom", "library": str(vendor.library), "home": str(toolkit.home), "variables": variables}
    (workdir / BUILD_RECORD).write_text(json.dumps(built))
    return CannPipeline(toolkit.detect()._replace(level=NPU), "Ascend910B2")


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def with_alpha(value):
    return pair()._replace(scalars=(("alpha", "float", value),))


def test_operator_computes_expected_values(toolkit, workdir):
    arguments = pair()
    install_operator(toolkit, workdir).run_operator(workdir, arguments)
    x, y = (tensor.data for tensor in arguments.inputs)
    out = arguments.outputs[0].data
    assert np.array_equal(out[1:], (x + 0.5 * y)[1:])
    assert np.isnan(out[0])  # elements that the kernel does not write keep their value


@pytest.mark.parametrize(
    ("alpha", "reason", "words"),
    [
        (1001, "tiling", "561002"),
        (1002, "dtype", "161002"),
        (1003, "out_of_bounds", "DDR address"),
        (1004, "crash", ""),
    ],
)
def test_failing_operator_has_matching_reason(alpha, reason, words, toolkit, workdir):
    cann = install_operator(toolkit, workdir)
    for attempt in (lambda: cann.run_operator(workdir, with_alpha(alpha)), lambda: cann.time_operator(workdir, with_alpha(alpha))):
        with pytest.raises(CandidateError) as caught:
            attempt()
        assert caught.value.reason == reason
        assert words in caught.value.detail


def test_answer_of_an_earlier_run_is_ignored(toolkit, workdir):
    cann = install_operator(toolkit, workdir)
    cann.run_operator(workdir, pair())
    cann.time_operator(workdir, pair())
    for again in (cann.run_operator, cann.time_operator):
        with pytest.raises(CandidateError) as caught:
            again(workdir, with_alpha(1004))
        assert caught.value.reason == "crash"


def test_profiler_measures_launches(toolkit, workdir):
    found = install_operator(toolkit, workdir).time_operator(workdir, pair())
    assert found.duration_us == (13.5,)  # the first launch warms up
    assert found.block_dim == 8
    assert found.figures["aiv_vec_ratio"] == 0.5
    options = json.loads((workdir / "msprof.called.json").read_text())["arguments"]
    assert f"--launch-count={LAUNCHES}" in options
    assert "--kernel-name=KernelCustom" in options


@pytest.mark.parametrize(("tool", "first"), [("msprof", "op"), ("msopprof", "--output")])
def test_both_profiler_commands_work(tool, first, toolkit, workdir):
    cann = install_operator(toolkit, workdir)
    others = {name: None for name in ("msprof", "msopprof") if name != tool}
    CannPipeline(cann.installation._replace(tools=cann.installation.tools | others), "Ascend910B2").time_operator(workdir, pair())
    assert json.loads((workdir / "msprof.called.json").read_text())["arguments"][0].startswith(first)


def test_missing_profiler_is_a_user_error(toolkit, workdir):
    cann = install_operator(toolkit, workdir)
    cann.installation.tools.update(msprof=None, msopprof=None)
    with pytest.raises(UserError, match="msprof"):
        cann.time_operator(workdir, pair())


def test_profiler_without_output_is_an_infra_error(toolkit, workdir):
    toolkit.modes(msprof="empty")
    with pytest.raises(InfraError, match="no table"):
        install_operator(toolkit, workdir).time_operator(workdir, pair())


def test_hanging_run_times_out(toolkit, workdir, monkeypatch):
    toolkit.modes(msprof="hang")
    monkeypatch.setattr("evokernel.backends.ascendc.cann.pipeline.RUN_TIMEOUT_S", 1.0)
    with pytest.raises(CandidateError) as caught:
        install_operator(toolkit, workdir).time_operator(workdir, pair())
    assert caught.value.reason == "timeout"


def run_in_process(toolkit, body):
    """Run a few lines in a separate process."""
    code = PROCESS_SCRIPT.format(body=body)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(toolkit.home / "lib64"), "PYTHONPATH": str(FAKE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_operator_of_the_same_type_is_refused(toolkit, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        install_operator(toolkit, folder)
    body = f"""
first = load_operator(Path({str(folders[0])!r}))
load_operator(Path({str(folders[0])!r}))
try:
    load_operator(Path({str(folders[1])!r}))
except InfraError as error:
    print(error)
"""
    assert "one process per candidate" in run_in_process(toolkit, body)


def test_operator_runs_in_the_candidate_process(toolkit, workdir):
    """Uses only `load_operator` and `bind`, as the candidate process does; changed inputs are used in the next call."""
    install_operator(toolkit, workdir)
    body = f"""
arguments = pair(4)
run = load_operator(Path({str(workdir)!r})).bind(arguments)
run()
arguments.inputs[0].data[...] = 7
run()
print(arguments.outputs[0].data.tolist())
"""
    assert run_in_process(toolkit, body).strip() == "[nan, 8.0, 8.0, 8.0]"


def test_process_refuses_calls_after_an_error_on_a_core(toolkit, workdir):
    install_operator(toolkit, workdir)
    body = f"""
kernel = load_operator(Path({str(workdir)!r}))
for alpha in (1003.0, 0.5):
    try:
        kernel.bind(pair()._replace(scalars=(("alpha", "float", alpha),)))()
    except (CandidateError, InfraError) as error:
        print(type(error).__name__)
"""
    assert run_in_process(toolkit, body).split() == ["CandidateError", "InfraError"]


def test_package_without_the_operator_is_refused(toolkit, workdir):
    install_operator(toolkit, workdir)
    built = json.loads((workdir / BUILD_RECORD).read_text())
    (workdir / BUILD_RECORD).write_text(json.dumps(built | {"op": "OtherCustom"}))
    body = f"""
try:
    load_operator(Path({str(workdir)!r}))
except CandidateError as error:
    print(error.reason, error.detail)
"""
    assert run_in_process(toolkit, body).startswith("symbol the package has no operator of type OtherCustom")


def test_missing_runtime_is_an_infra_error(toolkit, workdir):
    install_operator(toolkit, workdir)
    shutil.rmtree(toolkit.home / "lib64")
    body = f"""
try:
    load_operator(Path({str(workdir)!r}))
except InfraError as error:
    print(error)
"""
    assert "set_env.sh" in run_in_process(toolkit, body)


def test_trace_of_cann_simulator_is_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FAKE))
    import tables

    (tmp_path / "OPPROF_1").mkdir()
    tables.write_trace(tmp_path / "OPPROF_1" / "simulator")
    sys.modules.pop("tables")
    found = simulate.read_trace(tmp_path, 2)
    assert found.duration_us == (3.5,)
    assert found.figures == {"vector_cycles": 150.0}
    assert found.frequency is None


@pytest.mark.parametrize("text", [None, "no json", "[]", '{"other": 1}', '[{"ph": "X", "ts": "?"}]'])
def test_missing_trace_is_an_infra_error(text, tmp_path):
    if text is not None:
        (tmp_path / "trace.json").write_text(text)
    with pytest.raises(InfraError, match=r"trace\.json"):
        simulate.read_trace(tmp_path, 2)


def test_verifier_process_loads_no_runtime():
    assert call.LOADED_OPERATORS == {}
