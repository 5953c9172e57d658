"""What was recorded, made ready to run: PTX to machine code with ptxas, arguments to the bytes a kernel finds them as."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evokernel.backends.gpu.cubin import Function, functions
from evokernel.backends.gpu.program import FILE, MOST_BYTES, Fill, Launch, Pointer, Program, Step, refuse_impossible, three, whole, written
from evokernel.backends.native.toolchain import compile
from evokernel.core.errors import CandidateError, UserError

TRACED = "traced.json"
NEWEST_FIRST = ("ptxas-blackwell", "ptxas")
"""Triton brings two; the newer one reads the PTX of either."""
TARGET = re.compile(r"^\.target (sm_\w+)", re.MULTILINE)
PACKED = {"i1": "<?", "u1": "<?", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q"}
FLOATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}
"""How numbers are passed, by Triton's names of types."""
WORD, WARP = 8, 32
MOST_CHOICES = 64


def ptxas() -> str:
    """The one that came with Triton, unless Triton was told of another."""
    if own := os.environ.get("TRITON_PTXAS_PATH"):
        return own
    found = importlib.util.find_spec("triton")
    folder = Path(str(found.origin)).parent / "backends" / "nvidia" / "bin" if found else Path()
    there = [folder / name for name in NEWEST_FIRST if (folder / name).exists()]
    if not there:
        raise UserError("Triton brings no ptxas: pip install 'evokernel[triton]', or set TRITON_PTXAS_PATH")
    return str(there[0])


def build(programs: Path, timeout_s: float) -> list[str]:
    """Leaves, beside what was recorded, the machine code of every kernel and the programs of all sizes.

    Where kernels are tuned, there is a file for every configuration; gives their names, the first of which is taken unless it is replaced.
    """
    try:
        if (programs / TRACED).stat().st_size > MOST_BYTES * 4:
            raise CandidateError("memory", "the launches and kernels of this candidate take too much to write down")
        traced = json.loads((programs / TRACED).read_text())
        kernels = {str(kernel["file"]): kernel for kernel in traced["kernels"]}
        made = {file: assembled(kernel, programs, timeout_s) for file, kernel in kernels.items()}
        choices = max((len(row[1]) for program in traced["sizes"].values() for row in program["steps"] if row[0] == "choice"), default=1)
        found = [
            {str(size): Maker(program, kernels, made, choice).program() for size, program in traced["sizes"].items()}
            for choice in range(min(choices, MOST_CHOICES))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error) as error:
        raise CandidateError("forbidden", f"what was recorded of this candidate's launches was changed: {error}") from error
    for program in found[0].values():
        refuse_impossible(program)
    names = [FILE, *(f"choice{number}.json" for number in range(1, len(found)))]
    for name, one in zip(names, found):
        (programs / name).write_text(written(one))
    return names


def assembled(kernel: Mapping[str, Any], folder: Path, timeout_s: float) -> Function:
    """One kernel's machine code, and what it takes."""
    name, text = str(kernel["file"]), str(kernel["ptx"])
    if not re.fullmatch(r"kernel\d+", name):
        raise ValueError(name)
    (folder / f"{name}.ptx").write_text(text)
    target = TARGET.search(text)
    path = ptxas()
    options = [f"--gpu-name={target[1] if target else 'sm_90'}", f"{name}.ptx", "-lineinfo", "-o", f"{name}.image"]
    done = compile(path, options, folder, timeout_s, [Path(path).parent])
    if done.timed_out:
        raise CandidateError("build_timeout", f"ptxas did not finish within {timeout_s:g} s: smaller blocks, less unrolling")
    if done.code or not (folder / f"{name}.image").exists():
        lines = [line for line in done.text.splitlines() if "error" in line or "fatal" in line] or [done.text.strip()]
        raise CandidateError("compile_error", f"ptxas refuses {kernel['name']}: {lines[0][:300]}")
    return functions((folder / f"{name}.image").read_bytes())[str(kernel["name"])]


class Maker:
    """One size."""

    def __init__(
        self, found: Mapping[str, Any], kernels: Mapping[str, Mapping[str, Any]], made: Mapping[str, Function], choice: int
    ) -> None:
        self.found, self.kernels, self.made, self.choice = found, kernels, made, choice
        self.tensors = tuple(map(whole, found["tensors"]))
        self.scratch = list(map(whole, found["scratch"]))

    def program(self) -> Program:
        steps = [step for row in self.found["steps"] for step in self.steps(row)]
        return Program(self.tensors, whole(self.found["outputs"]), tuple(self.scratch), tuple(steps))

    def steps(self, row: list[Any]) -> list[Step]:
        kind, *values = row
        if kind == "fill":
            return [Fill(*map(whole, values))]
        if kind == "choice":
            choices = values[0]
            return [step for one in choices[min(self.choice, len(choices) - 1)] for step in self.steps(one)]
        return [self.launch(*values)]

    def launch(self, file: str, grid: list[int], values: list[list[Any]]) -> Launch:
        kernel, function = self.kernels[file], self.made[file]
        cluster = whole(kernel["cluster"])
        sizes = three(grid)
        if kernel["scratch"]:
            self.scratch.append(whole(kernel["scratch"]) * sizes[0] * sizes[1] * sizes[2] * cluster)
            values = [*values, ["pointer", len(self.tensors) + len(self.scratch) - 1, 0]]
        arguments, pointers = self.packed(function, values)
        block = (whole(kernel["warps"]) * WARP, 1, 1)
        whole_grid = (sizes[0] * cluster, sizes[1], sizes[2])
        grouped = (cluster, 1, 1) if cluster > 1 else None
        name, shared = str(kernel["name"]), whole(kernel["shared"])
        return Launch(f"{file}.image", name, whole_grid, block, shared, arguments, pointers, grouped, bool(kernel["cooperative"]))

    def packed(self, function: Function, values: list[list[Any]]) -> tuple[bytes, tuple[Pointer, ...]]:
        """Arguments at their places; Triton's own last ones, where they are not used, are null."""
        size = max((one.offset + one.size for one in function.parameters), default=0)
        made, pointers = bytearray(size), []
        if len(values) > len(function.parameters):
            raise ValueError("more arguments than parameters")
        for parameter, (kind, *value) in zip(function.parameters, values):
            if kind == "pointer":
                pointers.append(Pointer(parameter.offset, whole(value[0]), whole(value[1])))
                continue
            data = number(str(kind), value[0])
            if len(data) != parameter.size:
                raise ValueError(f"a number of {len(data)} bytes where the kernel takes {parameter.size}")
            made[parameter.offset : parameter.offset + parameter.size] = data
        return bytes(made), tuple(pointers)


def number(kind: str, value: Any) -> bytes:
    """A number as it is passed."""
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    if kind in FLOATS:
        return struct.pack(FLOATS[kind], float(value))
    return struct.pack(PACKED[kind], bool(value) if kind in ("i1", "u1") else int(value))
