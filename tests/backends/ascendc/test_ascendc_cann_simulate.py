"""Runs kernels without an NPU: in the toolkit's CPU debug mode and on its simulator."""

import os
import struct
import subprocess

import numpy as np
import pytest
from cann_toolkit import FAKE, Toolkit, pair
from time_limits import HANG_S, growing_limits

from evokernel.backends.ascendc.cann import simulate
from evokernel.backends.ascendc.cann.environment import build_environment
from evokernel.backends.ascendc.cann.quick_compile import BUILD_FOLDER, TilingResult
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.records import ScalarArgument, Signature, Tensor

KERNEL = """// file: op_kernel.cpp
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void kernel_custom(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(told, tiling);
  DTYPE_X* a = (__gm__ float*)x;
  for (uint32_t i = 0; i < told.perBlock; ++i) {
    const uint32_t at = AscendC::GetBlockIdx() * told.perBlock + i;
    ((__gm__ float*)out)[at] = a[at] + told.alpha * ((__gm__ float*)y)[at];
  }
  if (TILING_KEY_IS(7)) ((__gm__ float*)workspace)[0] = 1;
}
"""
SIGNATURE = Signature(
    inputs=tuple(Tensor(name=name, dtype="float32", shape=(64,)) for name in "xy"),
    scalars=(ScalarArgument(name="alpha", kind="float", value=0.5),),
    outputs=(Tensor(name="out", dtype="float32", shape=(64,)),),
)
TILED = TilingResult(block_dim=4, key=7, workspace_bytes=4096, data=struct.pack("<If", 16, 0.5))
SOC = "Ascend910B1"


def project(kernel=KERNEL):
    text = (FAKE.parent / "cann_add.asc").read_text()
    return parse_project({"kernel.asc": text[: text.index("// file: op_kernel.cpp")] + kernel}, SIGNATURE)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    native = FAKE / "native"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(native / "acl.cpp"), "-o", str(folder / "libascendcl.so")], check=True)
    for name in simulate.CPU_DEBUG_LIBRARIES:
        subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-o", str(folder / f"lib{name}.so")], check=True)
    return folder


@pytest.fixture
def toolkit(tmp_path, monkeypatch, libraries):
    made = Toolkit(tmp_path / "cann", monkeypatch)
    made.modes(bisheng="plain")
    (made.home / "lib64").mkdir()
    os.link(libraries / "libascendcl.so", made.home / "lib64" / "libascendcl.so")
    for name in simulate.CPU_DEBUG_LIBRARIES:
        os.link(libraries / f"lib{name}.so", made.home / simulate.CPU_DEBUG_FOLDER / f"lib{name}.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made.home / "lib64"))
    return made


@pytest.fixture
def run(toolkit, tmp_path):
    """Runs one of the two, on tensors that it gives back."""
    workdir = tmp_path / "work"
    workdir.mkdir()

    def run(how, kernel=KERNEL, timeout_s=HANG_S, **tools):
        arguments, found = pair(), toolkit.detect()
        variables = build_environment(workdir, toolkit.home)
        found = found._replace(tools=found.tools | tools)
        return how(project(kernel), found, SOC, arguments, TILED, workdir, variables, timeout_s), arguments

    return run


def expected(arguments):
    return arguments.inputs[0].data + np.float32(0.5) * arguments.inputs[1].data


def test_cpu_debug_mode_computes_values(run):
    _, arguments = run(simulate.run_cpu_debug)
    assert np.array_equal(arguments.outputs[0].data, expected(arguments))


@pytest.mark.parametrize("tools", [{}, {"msopprof": None}], ids=["msopprof", "msprof"])
def test_cann_simulator_times_kernel(tools, run, tmp_path):
    measured, arguments = run(simulate.time_on_simulator, **tools)
    assert np.array_equal(arguments.outputs[0].data, expected(arguments))
    assert measured.duration_us == (3.5,)
    assert measured.block_dim == 4


@pytest.mark.parametrize("how", [simulate.run_cpu_debug, simulate.time_on_simulator])
def test_kernel_that_does_not_compile_is_reported(how, run):
    with pytest.raises(CandidateError) as caught:
        run(how, KERNEL.replace("told.alpha *", "told.beta *"))
    assert caught.value.reason == "compile_error"
    assert "op_kernel.cpp:8:" in caught.value.detail


@pytest.mark.parametrize("how", [simulate.run_cpu_debug, simulate.time_on_simulator])
def test_crashing_kernel_is_reported(how, run):
    with pytest.raises(CandidateError) as caught:
        run(how, KERNEL.replace("GET_TILING_DATA(told, tiling);", "GET_TILING_DATA(told, tiling); __builtin_trap();"))
    assert caught.value.reason == "crash"


@pytest.mark.parametrize("how", [simulate.run_cpu_debug, pytest.param(simulate.time_on_simulator, marks=pytest.mark.slow)])
def test_endless_kernel_times_out(how, run):
    endless, reasons = KERNEL.replace("++i)", "i += 0)").replace("const uint32_t at", 'asm volatile(""); const uint32_t at'), []
    for limit_s in growing_limits(lambda: reasons[-1] != "build_timeout"):
        with pytest.raises(CandidateError) as caught:
            run(how, endless, timeout_s=limit_s)
        reasons.append(caught.value.reason)
    assert reasons[-1] == "timeout"


def test_missing_debug_mode_is_a_user_error(run, toolkit):
    (toolkit.home / simulate.CPU_DEBUG_FOLDER).rename(toolkit.home / "gone")
    with pytest.raises(UserError, match="CPU debug mode"):
        run(simulate.run_cpu_debug)


def test_missing_simulator_is_a_user_error(run, toolkit):
    with pytest.raises(UserError, match="no simulator"):
        run(simulate.time_on_simulator, msprof=None, msopprof=None)
    toolkit.modes(bisheng="old")
    with pytest.raises(UserError, match="toolchain=simulator"):
        run(simulate.time_on_simulator)


def test_simulator_libraries_come_first(run, toolkit, tmp_path):
    run(simulate.time_on_simulator)
    called = (tmp_path / "work" / BUILD_FOLDER / "msprof.called.json").read_text()
    assert f'"LD_LIBRARY_PATH": "{toolkit.home}/tools/simulator/{SOC}/lib:' in called
    assert f"--soc-version={SOC}" in called
