"""Turns recorded launches into runnable programs: assembles PTX with ptxas and packs arguments into bytes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from evokernel.backends.gpu.cubin import KernelInfo, read_kernels
from evokernel.backends.gpu.program import (
    FILE,
    MAX_BYTES,
    Copy,
    Fill,
    Launch,
    Pointer,
    Program,
    Step,
    format_programs,
    renumber_tensors,
    require_int,
    require_triple,
    tensors_of_step,
    validate_program,
)
from evokernel.backends.native.toolchain import run_compiler
from evokernel.backends.triton.launch_check import RECORDING
from evokernel.core.cores import core_share
from evokernel.core.errors import CandidateError, UserError

NEWEST_FIRST = ("ptxas-blackwell", "ptxas")
"""Triton ships two; the newer one accepts the PTX of both."""
TARGET = re.compile(r"^\.target (sm_\w+)", re.MULTILINE)
INTEGER_FORMATS = {
    "i1": "<?",
    "u1": "<?",
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
}
FLOAT_FORMATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}
"""struct formats of numbers, by Triton's type names."""
WORD, WARP = 8, 32
MAX_ASSEMBLERS = 4
MAX_CHOICES = 64


def find_ptxas() -> str:
    """Returns the ptxas of TRITON_PTXAS_PATH if it is set, else the one that Triton ships."""
    if own := os.environ.get("TRITON_PTXAS_PATH"):
        return own
    spec = importlib.util.find_spec("triton")
    folder = Path(str(spec.origin)).parent / "backends" / "nvidia" / "bin" if spec else Path()
    candidates = [folder / name for name in NEWEST_FIRST if (folder / name).exists()]
    if not candidates:
        raise UserError("Triton has no ptxas; run pip install 'evokernel[triton]' or set TRITON_PTXAS_PATH")
    return str(candidates[0])


def build_programs(programs: Path, timeout_s: float) -> list[str]:
    """Writes the machine code of every kernel and the programs of all sizes next to the recording.

    Autotuned kernels get one file per configuration. Returns the file names; the first is used unless tuning replaces it.
    """
    try:
        if (programs / RECORDING).stat().st_size > MAX_BYTES * 4:
            raise CandidateError("memory", "the recording of launches and kernels is too large; use fewer launches and fewer kernels")
        recording = json.loads((programs / RECORDING).read_text())
        kernels = {str(kernel["file"]): kernel for kernel in recording["kernels"]}
        with ThreadPoolExecutor(min(MAX_ASSEMBLERS, core_share())) as pool:
            infos = list(pool.map(lambda kernel: assemble_kernel(kernel, programs, timeout_s), kernels.values()))
        functions_by_file = dict(zip(kernels, infos))
        choices = max((len(row[1]) for program in recording["sizes"].values() for row in program["steps"] if row[0] == "choice"), default=1)
        programs_by_choice = [
            {
                str(size): ProgramBuilder(program, kernels, functions_by_file, choice).build_program()
                for size, program in recording["sizes"].items()
            }
            for choice in range(min(choices, MAX_CHOICES))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error) as error:
        raise CandidateError("forbidden", f"the recording of this candidate's launches is invalid, so it was modified: {error}") from error
    for program in programs_by_choice[0].values():
        validate_program(program)
    names = [FILE, *(f"choice{number}.json" for number in range(1, len(programs_by_choice)))]
    for name, one in zip(names, programs_by_choice):
        (programs / name).write_text(format_programs(one))
    return names


def assemble_kernel(kernel: Mapping[str, Any], folder: Path, timeout_s: float) -> KernelInfo:
    """Assembles one kernel; returns its parameters and resource use."""
    name, text = str(kernel["file"]), str(kernel["ptx"])
    if not re.fullmatch(r"kernel\d+", name):
        raise ValueError(name)
    (folder / f"{name}.ptx").write_text(text)
    target = TARGET.search(text)
    path = find_ptxas()
    options = [f"--gpu-name={target[1] if target else 'sm_90'}", f"{name}.ptx", "-lineinfo", "-o", f"{name}.image"]
    compiler_run = run_compiler(path, options, folder, timeout_s, [Path(path).parent])
    if compiler_run.timed_out:
        raise CandidateError("build_timeout", f"ptxas did not finish within {timeout_s:g} s; use smaller blocks and less unrolling")
    if compiler_run.code or not (folder / f"{name}.image").exists():
        lines = [line for line in compiler_run.text.splitlines() if "error" in line or "fatal" in line] or [compiler_run.text.strip()]
        raise CandidateError("compile_error", f"ptxas refuses {kernel['name']}: {lines[0][:300]}")
    return read_kernels((folder / f"{name}.image").read_bytes())[str(kernel["name"])]


class ProgramBuilder:
    """Builds the program of one size from its recording."""

    def __init__(
        self,
        recording: Mapping[str, Any],
        kernels: Mapping[str, Mapping[str, Any]],
        functions_by_file: Mapping[str, KernelInfo],
        choice: int,
    ) -> None:
        self.found, self.kernels, self.made, self.choice = recording, kernels, functions_by_file, choice
        self.tensors = tuple(map(require_int, recording["tensors"]))
        self.scratch = list(map(require_int, recording["scratch"]))

    def build_program(self) -> Program:
        steps = [step for row in self.found["steps"] for step in self.build_steps(row)]
        return use_outputs_as_scratch(Program(self.tensors, require_int(self.found["outputs"]), tuple(self.scratch), tuple(steps)))

    def build_steps(self, row: list[Any]) -> list[Step]:
        kind, *values = row
        if kind == "fill":
            return [Fill(*map(require_int, values))]
        if kind == "copy":
            return [Copy(*map(require_int, values))]
        if kind == "choice":
            choices = values[0]
            return [step for one in choices[min(self.choice, len(choices) - 1)] for step in self.build_steps(one)]
        return [self.build_launch(*values)]

    def build_launch(self, file: str, grid: list[int], values: list[list[Any]]) -> Launch:
        kernel, function = self.kernels[file], self.made[file]
        cluster = require_int(kernel["cluster"])
        sizes = require_triple(grid)
        if kernel["scratch"]:
            self.scratch.append(require_int(kernel["scratch"]) * sizes[0] * sizes[1] * sizes[2] * cluster)
            values = [*values, ["pointer", len(self.tensors) + len(self.scratch) - 1, 0]]
        arguments, pointers = self.pack_arguments(function, values)
        block = (require_int(kernel["warps"]) * WARP, 1, 1)
        launch_grid = (sizes[0] * cluster, sizes[1], sizes[2])
        cluster_size = (cluster, 1, 1) if cluster > 1 else None
        name, shared = str(kernel["name"]), require_int(kernel["shared"])
        return Launch(f"{file}.image", name, launch_grid, block, shared, arguments, pointers, cluster_size, bool(kernel["cooperative"]))

    def pack_arguments(self, function: KernelInfo, values: list[list[Any]]) -> tuple[bytes, tuple[Pointer, ...]]:
        """Packs arguments at the offsets of their parameters. Triton's own trailing parameters are null if they are unused."""
        size = max((one.offset + one.size for one in function.parameters), default=0)
        buffer, pointers = bytearray(size), []
        if len(values) > len(function.parameters):
            raise ValueError("there are more arguments than parameters")
        for parameter, (kind, *value) in zip(function.parameters, values):
            if kind == "pointer":
                pointers.append(Pointer(parameter.offset, require_int(value[0]), require_int(value[1])))
                continue
            data = pack_number(str(kind), value[0])
            if len(data) != parameter.size:
                raise ValueError(f"the argument has {len(data)} bytes, but the kernel parameter has {parameter.size}")
            buffer[parameter.offset : parameter.offset + parameter.size] = data
        return bytes(buffer), tuple(pointers)


def pack_number(kind: str, value: Any) -> bytes:
    """Packs a number in the format of its Triton type."""
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    if kind in FLOAT_FORMATS:
        return struct.pack(FLOAT_FORMATS[kind], float(value))
    return struct.pack(INTEGER_FORMATS[kind], bool(value) if kind in ("i1", "u1") else int(value))


def use_outputs_as_scratch(program: Program) -> Program:
    """Removes copies of complete scratch to an output that nothing else uses: the kernels then write the output itself."""
    while (index := find_returned_scratch(program)) is not None:
        copy = program.steps[index]
        assert isinstance(copy, Copy)
        numbers = {number: number - (number > copy.source) for number in range(len(program.tensors) + len(program.scratch))}
        numbers[copy.source] = copy.tensor
        steps = [renumber_tensors(step, numbers.__getitem__) for step in (*program.steps[:index], *program.steps[index + 1 :])]
        place = copy.source - len(program.tensors)
        program = program._replace(scratch=program.scratch[:place] + program.scratch[place + 1 :], steps=tuple(steps))
    return program


def find_returned_scratch(program: Program) -> int | None:
    """Returns the position of a copy that `use_outputs_as_scratch` can remove."""
    given = len(program.tensors)
    for index, copy in enumerate(program.steps):
        if not isinstance(copy, Copy) or copy.source < given or copy.offset or copy.source_offset:
            continue
        is_whole = copy.length == program.scratch[copy.source - given] == program.tensors[copy.tensor]
        is_output = given - program.outputs <= copy.tensor < given
        others = (*program.steps[:index], *program.steps[index + 1 :])
        is_used_later = any(copy.source in tensors_of_step(step) for step in program.steps[index + 1 :])
        if is_whole and is_output and not is_used_later and not any(copy.tensor in tensors_of_step(step) for step in others):
            return index
    return None
