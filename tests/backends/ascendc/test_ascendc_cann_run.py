"""An installed operator, called in processes of its own and measured by the profiler; the card is a fake one on the CPU."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cann_toolkit import FAKE, Toolkit, pair

from evokernel.backends.ascendc.cann import call, simulate
from evokernel.backends.ascendc.cann.call import BUILT
from evokernel.backends.ascendc.cann.detect import CARD
from evokernel.backends.ascendc.cann.environment import Installed, for_running
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, Cann
from evokernel.core.errors import CandidateError, InfraError, UserError

ALONE = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from cann_toolkit import pair
from evokernel.backends.ascendc.cann.call import load
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


def installed(toolkit, workdir):
    """What a build leaves, without building."""
    vendor = Installed(workdir / "opp" / "vendors" / "mine")
    vendor.library.parent.mkdir(parents=True)
    shutil.copy(toolkit.home / "lib64" / "libcust_opapi.so", vendor.library)
    variables = for_running(workdir, toolkit.home, vendor, 0)
    built = {"op": "KernelCustom", "library": str(vendor.library), "home": str(toolkit.home), "variables": variables}
    (workdir / BUILT).write_text(json.dumps(built))
    return Cann(toolkit.found()._replace(level=CARD), "Ascend910B2")


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def with_alpha(value):
    return pair()._replace(scalars=(("alpha", "float", value),))


def test_values(toolkit, workdir):
    arguments = pair()
    installed(toolkit, workdir).run(workdir, arguments)
    x, y = (tensor.data for tensor in arguments.inputs)
    out = arguments.outputs[0].data
    assert np.array_equal(out[1:], (x + 0.5 * y)[1:])
    assert np.isnan(out[0])  # what a kernel does not write comes back as it was


@pytest.mark.parametrize(
    ("alpha", "reason", "words"),
    [
        (1001, "tiling", "561002"),
        (1002, "dtype", "161002"),
        (1003, "out_of_bounds", "DDR address"),
        (1004, "crash", ""),
    ],
)
def test_an_operator_that_fails(alpha, reason, words, toolkit, workdir):
    cann = installed(toolkit, workdir)
    for attempt in (lambda: cann.run(workdir, with_alpha(alpha)), lambda: cann.timed(workdir, with_alpha(alpha))):
        with pytest.raises(CandidateError) as caught:
            attempt()
        assert caught.value.reason == reason
        assert words in caught.value.detail


def test_an_earlier_answer_is_not_believed(toolkit, workdir):
    cann = installed(toolkit, workdir)
    cann.run(workdir, pair())
    cann.timed(workdir, pair())
    for again in (cann.run, cann.timed):
        with pytest.raises(CandidateError) as caught:
            again(workdir, with_alpha(1004))
        assert caught.value.reason == "crash"


def test_measured(toolkit, workdir):
    found = installed(toolkit, workdir).timed(workdir, pair())
    assert found.duration_us == (13.5,)  # the first launch warms up
    assert found.block_dim == 8
    assert found.figures["aiv_vec_ratio"] == 0.5
    options = json.loads((workdir / "msprof.called.json").read_text())["arguments"]
    assert f"--launch-count={LAUNCHES}" in options
    assert "--kernel-name=KernelCustom" in options


@pytest.mark.parametrize(("tool", "first"), [("msprof", "op"), ("msopprof", "--output")])
def test_both_names_of_the_profiler(tool, first, toolkit, workdir):
    cann = installed(toolkit, workdir)
    others = {name: None for name in ("msprof", "msopprof") if name != tool}
    Cann(cann.found._replace(tools=cann.found.tools | others), "Ascend910B2").timed(workdir, pair())
    assert json.loads((workdir / "msprof.called.json").read_text())["arguments"][0].startswith(first)


def test_no_profiler(toolkit, workdir):
    cann = installed(toolkit, workdir)
    cann.found.tools.update(msprof=None, msopprof=None)
    with pytest.raises(UserError, match="msprof"):
        cann.timed(workdir, pair())


def test_a_profiler_that_leaves_nothing(toolkit, workdir):
    toolkit.modes(msprof="empty")
    with pytest.raises(InfraError, match="no table"):
        installed(toolkit, workdir).timed(workdir, pair())


def test_a_run_that_hangs(toolkit, workdir, monkeypatch):
    toolkit.modes(msprof="hang")
    monkeypatch.setattr("evokernel.backends.ascendc.cann.pipeline.RUN_S", 1.0)
    with pytest.raises(CandidateError) as caught:
        installed(toolkit, workdir).timed(workdir, pair())
    assert caught.value.reason == "timeout"


def alone(toolkit, body):
    """Runs a few lines in a process of their own."""
    code = ALONE.format(tests=str(FAKE.parent), body=body)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(toolkit.home / "lib64")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_operator_of_the_same_type_is_refused(toolkit, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        installed(toolkit, folder)
    body = f"""
first = load(Path({str(folders[0])!r}))
load(Path({str(folders[0])!r}))
try:
    load(Path({str(folders[1])!r}))
except InfraError as error:
    print(error)
"""
    assert "one process per candidate" in alone(toolkit, body)


def test_in_the_judges_child(toolkit, workdir):
    """`load` and `bind` alone, as the judge's child uses them; inputs that change between calls are seen."""
    installed(toolkit, workdir)
    body = f"""
arguments = pair(4)
run = load(Path({str(workdir)!r})).bind(arguments)
run()
arguments.inputs[0].data[...] = 7
run()
print(arguments.outputs[0].data.tolist())
"""
    assert alone(toolkit, body).strip() == "[nan, 8.0, 8.0, 8.0]"


def test_after_an_error_on_a_core_nothing_is_run(toolkit, workdir):
    installed(toolkit, workdir)
    body = f"""
kernel = load(Path({str(workdir)!r}))
for alpha in (1003.0, 0.5):
    try:
        kernel.bind(pair()._replace(scalars=(("alpha", "float", alpha),)))()
    except (CandidateError, InfraError) as error:
        print(type(error).__name__)
"""
    assert alone(toolkit, body).split() == ["CandidateError", "InfraError"]


def test_a_package_without_the_operator(toolkit, workdir):
    installed(toolkit, workdir)
    built = json.loads((workdir / BUILT).read_text())
    (workdir / BUILT).write_text(json.dumps(built | {"op": "OtherCustom"}))
    body = f"""
try:
    load(Path({str(workdir)!r}))
except CandidateError as error:
    print(error.reason, error.detail)
"""
    assert alone(toolkit, body).startswith("symbol the package has no operator of the type OtherCustom")


def test_no_runtime(toolkit, workdir):
    installed(toolkit, workdir)
    shutil.rmtree(toolkit.home / "lib64")
    body = f"""
try:
    load(Path({str(workdir)!r}))
except InfraError as error:
    print(error)
"""
    assert "set_env.sh" in alone(toolkit, body)


def test_the_simulators_trace(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FAKE))
    import tables

    (tmp_path / "OPPROF_1").mkdir()
    tables.write_trace(tmp_path / "OPPROF_1" / "simulator")
    sys.modules.pop("tables")
    found = simulate.read(tmp_path, 2)
    assert found.duration_us == (3.5,)
    assert found.figures == {"vector_cycles": 150.0}
    assert found.frequency is None


@pytest.mark.parametrize("text", [None, "no json", "[]", '{"other": 1}', '[{"ph": "X", "ts": "?"}]'])
def test_no_trace(text, tmp_path):
    if text is not None:
        (tmp_path / "trace.json").write_text(text)
    with pytest.raises(InfraError, match=r"trace\.json"):
        simulate.read(tmp_path, 2)


def test_nothing_is_loaded_here():
    assert call.LOADED == {}
