"""Recorded programs are run through a driver: here one whose device is the host, so that every step is seen to do what it says."""

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from evokernel.backends.cuda.build import find_nvcc
from evokernel.backends.gpu import driver
from evokernel.backends.gpu.cubin import read_kernels
from evokernel.backends.gpu.program import FILE, Copy, Fill, Launch, Pointer, Program, SymbolCopy, TensorMap, format_programs
from evokernel.backends.gpu.replay import ReplayedKernel, program_key_of
from evokernel.core.backend import Arguments, Array
from evokernel.core.errors import CandidateError

pytestmark = pytest.mark.skipif(find_nvcc("") is None or shutil.which("gcc") is None, reason="no nvcc, or no C compiler")
DEVICE = """#include <cuda.h>
__global__ void scaled(const float* x, const float* w, float* y, long n, float by) { y[0] = x[0] * w[0] * by * n; }
__global__ void tiles(const __grid_constant__ CUtensorMap map, float* y) { y[0] = ((const float*)&map)[0]; }
"""
N = 16
MAP = TensorMap(0, 7, 0, 0, 0, 3, 0, 0, (N,), (), (N,), (1,))


@pytest.fixture(scope="module")
def device_code(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("code")
    (folder / "kernel.cu").write_text(DEVICE)
    subprocess.run([str(find_nvcc("")), "-arch=sm_90a", "-cubin", "kernel.cu", "-o", "kernel.cubin"], cwd=folder, check=True)
    return (folder / "kernel.cubin").read_bytes()


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("driver") / "libcuda.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", made, Path(__file__).parent / "fake_cuda.c"], check=True)
    return made


@pytest.fixture
def play(device_code, library, tmp_path, monkeypatch):
    """Runs a program twice on 0, 1, 2, …; gives the output."""
    monkeypatch.setattr(driver, "LIBRARY", str(library))
    (tmp_path / "kernel0.image").write_bytes(device_code)
    x, out = np.arange(N, dtype=np.float32), np.full(N, np.nan, np.float32)
    arguments = Arguments((Array("x", "float32", x),), (), (Array("out", "float32", out),))

    def run(*steps, scratch=(), constants=()) -> np.ndarray:
        made = Program((4 * N, 4 * N), 1, tuple(scratch), steps, tuple(constants))
        (tmp_path / FILE).write_text(format_programs({program_key_of(arguments): made}))
        call = ReplayedKernel(tmp_path).bind(arguments)
        call()
        first = out.copy()
        out.fill(np.nan)
        call()
        np.testing.assert_array_equal(first, out, "a second call is like the first")
        return out

    return run


@pytest.fixture
def launch(device_code):
    known = {("scaled" if "scaled" in name else "tiles"): function for name, function in read_kernels(device_code).items()}

    def made(name: str, values: dict[int, bytes] | None = None, pointers: dict[int, int] | None = None, **more) -> Launch:
        places = [parameter.offset for parameter in known[name].parameters]
        packed = bytearray(max(parameter.offset + parameter.size for parameter in known[name].parameters))
        for index, data in (values or {}).items():
            packed[places[index] : places[index] + len(data)] = data
        pointing = tuple(Pointer(places[index], tensor, 0) for index, tensor in (pointers or {}).items())
        maps = tuple(one._replace(at=places[0]) for one in more.pop("maps", ()))
        return Launch("kernel0.image", known[name].name, (1, 1, 1), (N, 1, 1), 0, bytes(packed), pointing, maps=maps)

    return made


def scaled(launch, weight: int, count: int = N, by: float = 2.0) -> Launch:
    return launch("scaled", {3: struct.pack("<q", count), 4: struct.pack("<f", by)}, {0: 0, 1: weight, 2: 1})


def test_arguments_constants_and_variables_reach_the_driver(play, launch):
    three, five = struct.pack("<f", 3.0), struct.pack("<f", 5.0)
    found = play(SymbolCopy("kernel0.image", "kept", 0, 3, 0, 4), scaled(launch, 2), constants=(three, five))
    np.testing.assert_array_equal(found, np.arange(N) * 6.0 + 5.0)


def test_scratch_is_poisoned_filled_and_copied(play, launch):
    steps = (
        Fill(2, 0, 0x40400000, 4, 4),
        SymbolCopy("kernel0.image", "kept", 0, 3, 0, 4),
        scaled(launch, 2, count=8),
        Fill(1, 32, 0, 16),
        Copy(1, 48, 0, 0, 16),
    )
    found = play(*steps, scratch=(4,), constants=(bytes(4),))
    np.testing.assert_array_equal(found, [*np.arange(8) * 6.0, 0, 0, 0, 0, 0, 1, 2, 3])
    halves = play(Fill(1, 0, 0x3C00, 4 * N, 2))
    np.testing.assert_array_equal(halves.view(np.float16), np.ones(2 * N))


def test_driver_encodes_tensor_maps(play, launch):
    np.testing.assert_array_equal(play(launch("tiles", pointers={1: 1}, maps=(MAP,))), np.arange(N) + 3.0)
    with pytest.raises(CandidateError, match="refuses a tensor map"):
        play(launch("tiles", pointers={1: 1}, maps=(MAP._replace(box=(512,)),)))


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda launch: scaled(launch, 2, count=N + 4), "out_of_bounds"),
        (lambda launch: scaled(launch, 0), "inputs"),
        (lambda launch: SymbolCopy("kernel0.image", "kept", 61, 2, 0, 4), "out_of_bounds"),
        (lambda launch: scaled(launch, 2)._replace(arguments=bytes(16), pointers=()), "forbidden"),
    ],
)
def test_out_of_bounds_writes_are_detected(play, launch, step, reason):
    with pytest.raises(CandidateError) as caught:
        play(step(launch), constants=(bytes(4),))
    assert caught.value.reason == reason
