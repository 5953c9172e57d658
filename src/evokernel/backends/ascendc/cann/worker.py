"""A process for one candidate: runs an operator on tensors from files. The profiler runs it, and whoever wants values without a judge.

Started with the path of an order (json): the build folder, inputs, scalars and outputs, how often to run, where the answer goes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.backends.ascendc.cann.call import load
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.protocols import Arguments, Array

CANDIDATE, MACHINE = 3, 4
"""Exit codes: whose fault it was."""
ANSWER, ORDER = "answer.json", "order.json"


def write_order(folder: Path, workdir: Path, arguments: Arguments, calls: int) -> Path:
    """Leaves tensors and order in a folder, and nothing of an earlier run; gives the order's path."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    named: dict[str, list[list[str]]] = {}
    for kind, arrays in (("inputs", arguments.inputs), ("outputs", arguments.outputs)):
        for index, array in enumerate(arrays):
            file = f"{kind}_{index}.npy"
            np.save(folder / file, array.data)
            named.setdefault(kind, []).append([array.name, array.dtype, file])
    order = {"workdir": str(workdir), "scalars": arguments.scalars, "calls": calls, "inputs": [], "outputs": [], **named}
    path = folder / ORDER
    path.write_text(json.dumps(order))
    return path


def arguments_in(order: dict[str, Any], folder: Path) -> Arguments:
    """What an order names, read from its folder."""
    return Arguments(
        inputs=tuple(Array(name, dtype, np.load(folder / file)) for name, dtype, file in order["inputs"]),
        scalars=tuple((name, kind, value) for name, kind, value in order["scalars"]),
        outputs=tuple(Array(name, dtype, np.load(folder / file)) for name, dtype, file in order["outputs"]),
    )


def read_outputs(folder: Path, arguments: Arguments) -> None:
    """Puts what the worker computed where the caller wants it."""
    for index, array in enumerate(arguments.outputs):
        computed = np.load(folder / f"outputs_{index}.npy", allow_pickle=False)
        if computed.shape != array.data.shape or computed.dtype != array.data.dtype:
            raise CandidateError("shape", f"the output {array.name} came back as {computed.dtype} {computed.shape}")
        array.data[...] = computed


def main() -> None:
    """Ends the process itself: after an error on a core, the runtime's own way out may hang."""
    path = Path(sys.argv[-1])
    order = json.loads(path.read_text())
    code, answer = 0, {"reason": "", "detail": ""}
    try:
        work(order, path.parent)
    except CandidateError as error:
        code, answer = CANDIDATE, {"reason": error.reason, "detail": error.detail}
    except (InfraError, UserError) as error:
        code, answer = MACHINE, {"reason": "", "detail": str(error)}
    (path.parent / ANSWER).write_text(json.dumps(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def probe() -> None:
    """Whether the card can be used at all, with nothing of a candidate's near; started with the toolkit's folder."""
    from evokernel.backends.ascendc.cann.acl import Runtime

    try:
        Runtime(Path(sys.argv[-1]) / "lib64")
    except InfraError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(MACHINE)
    os._exit(0)


def work(order: dict[str, Any], folder: Path) -> None:
    """Loads, runs, and leaves the outputs in the files they came from."""
    arguments = arguments_in(order, folder)
    call = load(Path(order["workdir"])).bind(arguments)
    for _ in range(order["calls"]):
        call()
    for (_, _, file), array in zip(order["outputs"], arguments.outputs):
        np.save(folder / file, array.data)


if __name__ == "__main__":
    main()
