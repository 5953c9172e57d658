"""Compares interpreted with recorded launches: only the recording is compiled, so a candidate must launch the same in both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.backends.gpu.program import program_key
from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError

RECORDING = "traced.json"
Launch = tuple[str, tuple[int, ...]]
"""The name of a kernel and its grid."""


class RecordedLaunches:
    """The launches of a recording, by call."""

    def __init__(self, programs: Path) -> None:
        recording = json.loads((programs / RECORDING).read_text())
        self.names = {kernel["file"]: kernel["name"] for kernel in recording["kernels"]}
        self.sizes = recording["sizes"]

    def find(self, arguments: Arguments) -> list[list[Launch]] | None:
        """Return the launches of a call in order, each with its alternatives; None if the call was not recorded."""
        tensors = [(array.dtype, tuple(array.data.shape)) for array in (*arguments.inputs, *arguments.outputs)]
        key = program_key(tensors, [(kind, value) for _, kind, value in arguments.scalars])
        return self.list_launches(self.sizes[key]["steps"]) if key in self.sizes else None

    def list_launches(self, steps: Sequence[Any]) -> list[list[Launch]]:
        launches = list[list[Launch]]()
        for step in steps:
            if step[0] == "launch":
                launches.append([(self.names[step[1]], tuple(step[2]))])
            elif step[0] == "choice":  # the configurations of an autotuner, one launch each
                launches.append([launch for option in step[1] for one in self.list_launches(option) for launch in one])
        return launches


def refuse_other_launches(recorded: Sequence[Sequence[Launch]] | None, interpreted: Sequence[Launch]) -> None:
    """Raise if the interpreted call launched other kernels or grids than the recorded one."""
    if recorded is None or (len(recorded) == len(interpreted) and all(one in options for one, options in zip(interpreted, recorded))):
        return
    raise CandidateError(
        "forbidden",
        f"`kernel` launches {describe_launches(interpreted)} when it is interpreted, and "
        f"{describe_launches([options[0] for options in recorded])} when it is compiled; launch the same kernels in both cases",
    )


def describe_launches(launches: Sequence[Launch]) -> str:
    names = [f"{name}{list(grid)}" for name, grid in launches[:3]]
    return ", ".join(names) + (f" and {len(launches) - 3} more" if len(launches) > 3 else "") or "nothing"
