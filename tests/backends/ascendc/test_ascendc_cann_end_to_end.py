"""Takes a real candidate through the fake toolkit, whose tools compile, install, call and measure with the simulator."""

import json
import os
import struct
import subprocess

import numpy as np
import pytest
from cann_toolkit import DESCRIPTION, FAKE, Toolkit, build_readable_paths, pair

from evokernel.backends.ascendc.build import build as build_simulator
from evokernel.backends.ascendc.cann.call import BUILD_RECORD
from evokernel.backends.ascendc.cann.detect import NPU, TOOLCHAIN
from evokernel.backends.ascendc.cann.pipeline import CannPipeline
from evokernel.backends.ascendc.cann.tiling_probe import probe_tiling
from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.core import paths
from evokernel.core.errors import CandidateError
from evokernel.core.records import ScalarArgument, Signature, Tensor

TEXT = (FAKE.parent / "cann_add.asc").read_text()
SHAPE = (2048,)
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=SHAPE), Tensor(name="y", dtype="float32", shape=SHAPE)),
    scalars=(ScalarArgument(name="alpha", kind="float", value=0.5),),
    outputs=(Tensor(name="out", dtype="float32", shape=SHAPE),),
)


def project(text=TEXT):
    return parse_project({"kernel.asc": text}, SIGNATURE)


@pytest.fixture(scope="module")
def simulator_built(tmp_path_factory):
    return tmp_path_factory.mktemp("simulator")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, simulator_built):
    """The fake runtime's libraries, and the simulator, compiled before any tool runs in the sandbox."""
    folder = tmp_path_factory.mktemp("whole")
    native = FAKE / "native"
    for source, name in (("acl.cpp", "libascendcl.so"), ("tensors.cpp", "libnnopbase.so")):
        subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(native / source), "-o", str(folder / name)], check=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVOKERNEL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))  # as for every single test
        build_simulator(project(), simulator_built)
    (simulator_built / "plan.json").write_text(json.dumps({"op": "KernelCustom", "function": "", "call": []}))
    return folder


@pytest.fixture
def toolkit(tmp_path, monkeypatch, prepared):
    made = Toolkit(tmp_path / "cann", monkeypatch)
    (made.home / "lib64").mkdir()
    for library in prepared.iterdir():
        os.link(library, made.home / "lib64" / library.name)
    (made.home / "cache.txt").write_text(str(paths.cache_folder()))
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join([str(made.home / "lib64"), *build_readable_paths()]))
    return made


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_candidate_is_built_called_and_measured(toolkit, workdir):
    cann = CannPipeline(toolkit.detect()._replace(level=NPU), "Ascend910B2")
    cann.build(project(), json.dumps([DESCRIPTION]), workdir)
    arguments = pair(SHAPE[0])
    cann.run_operator(workdir, arguments)
    x, y = (tensor.data for tensor in arguments.inputs)
    assert np.array_equal(arguments.outputs[0].data, x + np.float32(0.5) * y)
    measured = cann.time_operator(workdir, arguments)
    assert measured.us > 0
    assert measured.block_dim == 4
    assert 0 < measured.figures["aiv_vec_ratio"] < 1
    vendor = json.loads((workdir / BUILD_RECORD).read_text())["variables"]["ASCEND_CUSTOM_OPP_PATH"]
    assert os.path.isfile(os.path.join(vendor, "bin", "set_env.bash"))


@pytest.mark.slow
def test_quick_compile_reports_unknown_name(toolkit, workdir):
    cann = CannPipeline(toolkit.detect()._replace(level=TOOLCHAIN), "Ascend910B2")
    wrong = TEXT.replace("Muls(more", "Mults(more")
    with pytest.raises(CandidateError) as caught:
        cann.build(project(wrong), json.dumps([DESCRIPTION]), workdir)
    assert caught.value.reason == "compile_error"
    kernel = wrong[wrong.index("// file: op_kernel.cpp") :].splitlines()[1:]
    line = next(number for number, text in enumerate(kernel, 1) if "Mults" in text)
    assert f"op_kernel.cpp:{line}:" in caught.value.detail
    assert str(workdir) not in caught.value.detail


@pytest.mark.slow
def test_quick_compile_accepts_good_kernel(toolkit, workdir):
    CannPipeline(toolkit.detect()._replace(level=TOOLCHAIN), "Ascend910B2").build(project(), json.dumps([DESCRIPTION]), workdir)
    assert not (workdir / BUILD_RECORD).exists()


@pytest.mark.slow
def test_violation_on_the_npu_is_explained(toolkit, workdir):
    cann = CannPipeline(toolkit.detect()._replace(level=NPU), "Ascend910B2")
    cann.build(
        project(TEXT.replace("DataCopy(c, result, told.perBlock)", "DataCopy(c[8], result, told.perBlock)")),
        json.dumps([DESCRIPTION]),
        workdir,
    )
    with pytest.raises(CandidateError) as caught:
        cann.run_operator(workdir, pair(SHAPE[0]))
    assert "507035" in caught.value.detail


@pytest.mark.slow
def test_tiling_probe_returns_blocks_and_tiling_data(prepared, simulator_built):
    found = probe_tiling(simulator_built, pair(SHAPE[0]), find_chip("910B2").runtime_config_text())
    assert (found.block_dim, found.key) == (4, 0)
    assert struct.unpack_from("<If", found.data) == (SHAPE[0] // 4, 0.5)


@pytest.mark.slow
def test_failing_tiling_function_is_reported(prepared, simulator_built):
    without = pair(SHAPE[0])._replace(scalars=())
    with pytest.raises(CandidateError) as caught:
        probe_tiling(simulator_built, without, find_chip("910B2").runtime_config_text())
    assert caught.value.reason == "tiling"
