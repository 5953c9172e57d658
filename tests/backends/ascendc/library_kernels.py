"""Compiles the kernels of tests/backends/ascendc/library_api once per run and calls them with arrays."""

from __future__ import annotations

import ctypes
import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np

from evokernel.backends.ascendc.build import SIMULATOR_FOLDER, ensure_runtime_library
from evokernel.backends.native.toolchain import find_compiler

HERE = Path(__file__).parent / "library_api"
MIX, CUBE, MEETS = 1, 2, 4
OPTIONS = (
    "-std=c++17",
    "-fPIC",
    "-w",
    "-O0",
    "-DSIMULATOR_KERNEL_TU",
    f"-I{SIMULATOR_FOLDER / 'include'}",
    f"-I{SIMULATOR_FOLDER / 'runtime'}",
)


class Broken(Exception):
    """The simulator stopped a kernel."""

    def __init__(self, error: str) -> None:
        self.code, _, self.message = error.split("\t", 2)
        super().__init__(f"{self.code}: {self.message}")


@lru_cache
def library() -> ctypes.CDLL:
    """All kernels of the folder, linked to the simulator."""
    compiler = find_compiler("")
    assert compiler, "no C++ compiler"
    runtime = ensure_runtime_library(compiler)
    folder = Path(tempfile.mkdtemp(prefix="library_api"))

    def one(source: Path) -> str:
        made = folder / f"{source.stem}.o"
        done = subprocess.run([compiler, *OPTIONS, "-c", str(source), "-o", str(made)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        return str(made)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(one, sorted(HERE.glob("*.cpp"))))
    made = folder / "kernels.so"
    subprocess.run([compiler, "-shared", *objects, str(runtime), f"-Wl,-rpath,{runtime.parent}", "-o", str(made)], check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.last_error.restype = ctypes.c_char_p
    loaded.report.restype = ctypes.c_char_p
    return loaded


def launch(kernel: str, arrays: list[np.ndarray], tiling: bytes, blocks: int = 1, flags: int = 0) -> None:
    """Runs a kernel on arrays, which it may write."""
    loaded = library()
    data = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    sizes = (ctypes.c_uint64 * len(arrays))(*(array.nbytes for array in arrays))
    entry = ctypes.cast(getattr(loaded, kernel), ctypes.c_void_p)
    if loaded.run_kernel(entry, len(arrays), data, sizes, tiling, ctypes.c_uint64(len(tiling)), blocks, flags):
        raise Broken(loaded.last_error().decode())


def cycles() -> float:
    """Of the launch before."""
    return json.loads(library().report())["cycles"]


def busy_cycles() -> dict[str, float]:
    """Busy cycles of each pipe in the launch before."""
    return json.loads(library().report())["busy"]
