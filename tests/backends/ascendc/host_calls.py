"""Calls operators and bound functions of a built library in a separate process: calls as JSON on stdin, results on stdout."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.backends.ascendc.arguments import Argument, argument_array, scalar_argument, tensor_argument
from evokernel.backends.ascendc.loader import preload_simulator
from evokernel.core.backend import Array

POISON = -12345.0


def argument(given: Any, kept: list[np.ndarray]) -> Argument:
    """None, a number, a text, a list (`[[1, 2], "ints"]`), or the shape of a tensor with a dtype: `[[4, 3], "float32"]`."""
    if given is None:
        return Argument(kind=0)
    if isinstance(given, str):
        kept.append(np.frombuffer(given.encode(), dtype="uint8"))
        return Argument(kind=6, data=kept[-1].ctypes.data, integer=len(given))
    if isinstance(given, list):
        shape, dtype = given
        if dtype == "ints":
            kept.append(np.array(shape, dtype="int64"))
            return Argument(kind=5, data=kept[-1].ctypes.data, integer=len(shape))
        if dtype == "floats":
            kept.append(np.array(shape, dtype="float64"))
            return Argument(kind=8, data=kept[-1].ctypes.data, integer=len(shape))
        kept.append(np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape))
        return tensor_argument(Array("x", dtype, kept[-1]))
    return scalar_argument(type(given).__name__, given)


def output(shape: list[int], dtype: str, kept: list[np.ndarray]) -> Argument:
    kept.append(np.full(shape, POISON, dtype))
    return tensor_argument(Array("y", dtype, kept[-1]))


def run_call(simulator: ctypes.CDLL, call: dict[str, Any]) -> dict[str, Any]:
    kept: list[np.ndarray] = []
    given = argument_array([argument(one, kept) for one in call["given"]])
    attributes = argument_array([argument(one, kept) for one in call.get("attributes", ())])
    outputs = argument_array([output(*one, kept) for one in call["outputs"]])
    sizes = len(call["given"]), len(call["outputs"])
    if "function" in call:
        failed = simulator.simulator_call(call["function"].encode(), given, sizes[0], outputs, sizes[1])
    else:
        failed = simulator.simulator_run(call["op"].encode(), given, sizes[0], attributes, len(call["attributes"]), outputs, sizes[1])
    code, _, text = (simulator.simulator_error().decode() + "\t\t").split("\t")[:3] if failed else ("", "", "")
    results = [array.astype(float).ravel().tolist() for array in kept[len(kept) - sizes[1] :]]
    return {"code": code, "text": text, "results": results, "report": json.loads(simulator.simulator_report() or b"[]")}


def main() -> None:
    folder, level = Path(sys.argv[1]), int(sys.argv[2])
    preload_simulator(folder / "libsimulator.so")
    simulator = ctypes.CDLL(str(folder / "libsimulator.so"), mode=ctypes.RTLD_GLOBAL)
    simulator.simulator_error.restype = simulator.simulator_report.restype = ctypes.c_char_p
    simulator.simulator_level(level)
    ctypes.CDLL(str(folder / "operator.so"))
    json.dump([run_call(simulator, call) for call in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
