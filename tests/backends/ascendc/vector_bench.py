"""Runs single vector instructions of the simulator: compiles the cases of vector_api/ once and runs one by name on numpy arrays."""

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evokernel.backends.ascendc import build
from evokernel.backends.native.toolchain import find_compiler

HERE = Path(__file__).parent / "vector_api"
RUNTIME = build.SIMULATOR_FOLDER / "runtime"
RUNTIME_PARTS = ("access_history", "core", "diagnose", "group_ranges", "parts", "pending_copies", "record", "traffic", "writers", "written")
SOURCES = [*sorted(HERE.glob("*.cpp")), *(RUNTIME / f"{name}.cpp" for name in RUNTIME_PARTS)]
FAST, HARDWARE, STRICT = range(3)
SLOT = 24 * 1024
FLOATS = ("float32", "float16")
COUNTS = (1, 7, 64, 100, 129, 1000)
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
LT, GT, EQ, LE, GE, NE = range(6)


class RuleBroken(AssertionError):
    """A case ended with a broken rule."""

    def __init__(self, said: str):
        self.code, _, self.text = said.split("\t")
        super().__init__(said)


def compile_cases() -> Path:
    """The cases as a library, made once for the files as they are."""
    compiler = find_compiler("")
    if not compiler:
        pytest.skip("no C++ compiler")
    digest = hashlib.sha256()
    for file in sorted([*HERE.glob("*"), *RUNTIME.glob("*.h"), *SOURCES]):
        digest.update(file.read_bytes())
    folder = Path(tempfile.gettempdir()) / "evokernel-vector-cases" / digest.hexdigest()[:16]
    library = folder / "cases.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as making:

        def one(source: Path) -> str:
            made = f"{making}/{source.stem}.o"
            options = ["-std=c++17", "-O0", "-fPIC", f"-I{build.SIMULATOR_FOLDER / 'include'}", f"-I{RUNTIME}"]
            subprocess.run([compiler, *options, "-c", str(source), "-o", made], check=True)
            return made

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(one, SOURCES))
        subprocess.run([compiler, "-shared", *objects, "-o", f"{making}/cases.so", "-ldl"], check=True)
        Path(f"{making}/cases.so").replace(library)
    return library


class Bench:
    """Runs cases: inputs go into local memory one slot after the other, the output is what its slot holds then."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(compile_cases()))
        self.library.bench_said.restype = ctypes.c_char_p
        self.library.bench_vector_cycles.restype = ctypes.c_double

    def run(
        self, case: str, inputs: Sequence[np.ndarray], numbers: Sequence[int], dtype: str, shape: int | tuple[int, ...], level: int = STRICT
    ) -> np.ndarray:
        """The case's output as `shape` elements of `dtype`; raises RuleBroken."""
        given = [np.ascontiguousarray(array) for array in inputs]
        assert all(array.nbytes <= SLOT for array in given)
        output = np.zeros(SLOT, np.uint8)
        pointers = (ctypes.c_void_p * len(given))(*(array.ctypes.data for array in given))
        sizes = (ctypes.c_int64 * len(given))(*(array.nbytes for array in given))
        values = (ctypes.c_int64 * 16)(*(int(np.uint64(n).astype(np.int64)) if n > 2**63 - 1 else n for n in numbers))
        target = ctypes.c_void_p(output.ctypes.data)
        code = self.library.bench_run(case.encode(), pointers, sizes, len(given), values, target, ctypes.c_int64(SLOT), level)
        assert code != 2, f"no case {case}"
        if code:
            raise RuleBroken(self.library.bench_said().decode())
        count = int(np.prod(shape))
        return output[: count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)

    def breaks(self, case: str, inputs: Sequence[np.ndarray], numbers: Sequence[int]) -> str:
        """The code of the rule that the case breaks, or nothing."""
        try:
            self.run(case, inputs, numbers, "uint8", 1)
        except RuleBroken as broken:
            return broken.code
        return ""

    def cycles(self) -> float:
        """What the last case cost the vector pipe."""
        return float(self.library.bench_vector_cycles())


def numbers(count: int, dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-4, 4, count).astype(dtype)


def whole(count: int, dtype: str, low: int = -100, high: int = 100, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, count).astype(dtype)


def up(count: int, to: int = 16) -> int:
    return (count + to - 1) // to * to


def width(dtype: str) -> int:
    return 256 // np.dtype(dtype).itemsize


def unit(dtype: str) -> float:
    return 2e-3 if dtype == "float16" else 1e-6


def elements(dtype: str, mask: np.ndarray, repeats: int, block: int, repeat: int) -> np.ndarray:
    """Where the lanes of a mask lie, repeat by repeat."""
    per_block = 32 // np.dtype(dtype).itemsize
    lanes = np.flatnonzero(mask)
    return np.concatenate([(r * repeat + lanes // per_block * block) * per_block + lanes % per_block for r in range(repeats)])


def dtype_of(dtype: str, value: float) -> np.generic:
    return np.dtype(dtype).type(value)
