"""A process for one candidate that runs an operator on tensors from files. The profiler starts it, and callers without a verifier do.

Its argument is the path of an order (JSON) with the build folder, inputs, scalars, outputs and the number of calls.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.backends.ascendc.cann.call import load_operator
from evokernel.core.backend import Arguments, Array
from evokernel.core.errors import CandidateError, InfraError, UserError

CANDIDATE_EXIT, MACHINE_EXIT = 3, 4
"""Exit codes for a failure of the candidate and of the machine."""
ANSWER_FILE, ORDER_FILE = "answer.json", "order.json"


def write_order(folder: Path, workdir: Path, arguments: Arguments, calls: int) -> Path:
    """Write tensors and order to a folder after emptying it; returns the path of the order."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    entries: dict[str, list[list[str]]] = {}
    for kind, arrays in (("inputs", arguments.inputs), ("outputs", arguments.outputs)):
        for index, array in enumerate(arrays):
            file = f"{kind}_{index}.npy"
            np.save(folder / file, array.data)
            entries.setdefault(kind, []).append([array.name, array.dtype, file])
    order = {"workdir": str(workdir), "scalars": arguments.scalars, "calls": calls, "inputs": [], "outputs": [], **entries}
    path = folder / ORDER_FILE
    path.write_text(json.dumps(order))
    return path


def read_arguments(order: dict[str, Any], folder: Path) -> Arguments:
    """Read the arguments of an order from its folder."""
    return Arguments(
        inputs=tuple(Array(name, dtype, np.load(folder / file)) for name, dtype, file in order["inputs"]),
        scalars=tuple((name, kind, value) for name, kind, value in order["scalars"]),
        outputs=tuple(Array(name, dtype, np.load(folder / file)) for name, dtype, file in order["outputs"]),
    )


def read_outputs(folder: Path, arguments: Arguments) -> None:
    """Copy the worker's outputs into the caller's arrays."""
    for index, array in enumerate(arguments.outputs):
        values = np.load(folder / f"outputs_{index}.npy", allow_pickle=False)
        if values.shape != array.data.shape or values.dtype != array.data.dtype:
            raise CandidateError("shape", f"the output {array.name} has the wrong type or shape: {values.dtype} {values.shape}")
        array.data[...] = values


def main() -> None:
    """Entry point of the process. It ends with `os._exit`, because the runtime may hang at exit after an error on a core."""
    path = Path(sys.argv[-1])
    order = json.loads(path.read_text())
    code, answer = 0, {"reason": "", "detail": ""}
    try:
        run_order(order, path.parent)
    except CandidateError as error:
        code, answer = CANDIDATE_EXIT, {"reason": error.reason, "detail": error.detail}
    except (InfraError, UserError) as error:
        code, answer = MACHINE_EXIT, {"reason": "", "detail": str(error)}
    (path.parent / ANSWER_FILE).write_text(json.dumps(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def probe_npu() -> None:
    """Check that the NPU is usable, without a candidate. The argument is the toolkit's folder."""
    from evokernel.backends.ascendc.cann.acl import NpuRuntime

    try:
        NpuRuntime(Path(sys.argv[-1]) / "lib64")
    except InfraError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(MACHINE_EXIT)
    os._exit(0)


def run_order(order: dict[str, Any], folder: Path) -> None:
    """Load and run the operator, and write the outputs to their files."""
    arguments = read_arguments(order, folder)
    call = load_operator(Path(order["workdir"])).bind(arguments)
    for _ in range(order["calls"]):
        call()
    for (_, _, file), array in zip(order["outputs"], arguments.outputs):
        np.save(folder / file, array.data)


if __name__ == "__main__":
    main()
