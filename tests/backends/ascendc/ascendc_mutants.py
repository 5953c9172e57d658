"""Small kernels with one error each, from `mutants/`, many of them in one library because compilation takes longest.

Run as a program it is the process that calls them: the library's folder, a level and the calls on stdin, what became of each on stdout.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "mutants"
LENGTH, TILE, BLOCKS = 1000, 256, 2
SHAPE = (BLOCKS, LENGTH)
PRELUDE = f"""#include "kernel_operator.h"
#include "lib/matmul_intf.h"
#include <stdexcept>
using namespace AscendC;
using namespace matmul;
constexpr uint32_t LENGTH = {LENGTH}, TILE = {TILE}, BLOCKS = {BLOCKS};
struct Larger {{ uint32_t length, more[15]; }};
"""
KERNEL, HOST = "op_kernel.cpp", "op_host.cpp"
SECONDS = 120


@dataclass(frozen=True)
class Mutant:
    """A base, one place of it changed, and the rule that this breaks."""

    code: str
    base: str
    old: str
    new: str
    at: str | None = None
    """The line that is named, or "" for none; where nothing is said, the first that was changed."""
    then: str = ""
    """The violation that ends a run in which this rule is only noted."""
    blocks: int = BLOCKS
    inputs: tuple[str, ...] = ("x", "y")
    function: str = ""
    """Name of the called function of a binding, if it is not the function in it."""

    def text(self) -> str:
        """The base with the change."""
        text = base(self.base)
        assert text.count(self.old) == 1, f"{self.code}: {self.old!r} is {text.count(self.old)} times in {self.base}"
        return text.replace(self.old, self.new)

    def line(self) -> int:
        """The number of the line that is named; 0 for none."""
        if self.at == "":
            return 0
        text = self.text()
        place = text.index(self.at) if self.at else base(self.base).index(self.old)
        return text.count("\n", 0, place) + 1


@dataclass(frozen=True)
class Result:
    """What became of a call."""

    code: str
    """Of the rule that ended it; "" when nothing did."""
    addresses: str
    text: str
    notes: tuple[str, ...]
    """Codes of noted violations, without remarks."""
    remarks: tuple[str, ...] = ()


def base(name: str) -> str:
    return (HERE / (name if "." in name else f"{name}.cpp")).read_text()


def mutants(name: str) -> list[Mutant]:
    """Those of a file."""
    return [
        Mutant(**(table | {"inputs": tuple(table.get("inputs", ("x", "y")))}))
        for table in tomllib.loads((HERE / f"{name}.toml").read_text())["mutant"]
    ]


class Group:
    """Mutants that are compiled together. The unchanged base is the first of the alternatives."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self.mutants = list(mutants)
        self.kind = self.mutants[0].base if self.mutants[0].base in ("operator", "bind") else "kernel"
        texts = [base(self.mutants[0].base), *(mutant.text() for mutant in self.mutants)]
        self.source, self.starts = {"kernel": kernels, "operator": operators, "bind": binds}[self.kind](texts)

    @property
    def file(self) -> str:
        """The one that is mutated."""
        return {"kernel": KERNEL, "operator": HOST, "bind": "bind.cpp"}[self.kind]

    def build(self, workdir: Path) -> None:
        files = {"tiling.h": base("tiling.h"), HOST: base("host"), KERNEL: kernels([base("scalar")])[0]}
        if self.kind != "bind":
            files[self.file] = self.source
        build(files, workdir, self.source if self.kind == "bind" else "")

    def calls(self) -> list[dict[str, Any]]:
        """One of each alternative."""
        return [self.call(number, mutant) for number, mutant in enumerate([None, *self.mutants])]

    def call(self, number: int, mutant: Mutant | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "numbers": [["which", number if self.kind == "kernel" else 0], ["blocks", mutant.blocks if mutant else BLOCKS]]
        }
        found["inputs"] = mutant.inputs if mutant else ["x", "y"]
        if self.kind == "operator":
            found["op"] = f"Alternative{number}Custom"
        elif self.kind == "bind":
            found["function"] = mutant.function if mutant and mutant.function else f"run{number}"
            found["call"] = [["tensor", 0], ["tensor", 1], ["number", 0], ["number", 1]]
        return found

    def line(self, index: int) -> int:
        """Of the whole source, the line that the index-th mutant's rule names; 0 for none."""
        line = self.mutants[index].line()
        return line and self.starts[index + 1] + line


def kernels(texts: Iterable[str]) -> tuple[str, list[int]]:
    """One kernel that is any of these, and after which line each begins."""
    source, starts = PRELUDE, []
    for number, text in enumerate(texts):
        source += f"namespace alternative{number} {{\n"
        starts.append(source.count("\n"))
        source += text + "}\n"
    source += (
        'extern "C" __global__ __aicore__ void kernel_custom(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {\n'
    )
    source += "  GET_TILING_DATA(t, tiling);\n"
    for number in range(len(starts)):
        source += f"  if (t.which == {number}) {{\n    alternative{number}::Kernel op;\n    op.Run(x, y, out, workspace, tiling);\n  }}\n"
    return source + "}\n", starts


def operators(texts: Iterable[str]) -> tuple[str, list[int]]:
    """One host side with an operator for each of these."""
    source, starts = '#include "tiling.h"\n#include "register/op_def_registry.h"\n#include <stdexcept>\n', []
    for number, text in enumerate(texts):
        starts.append(source.count("\n"))
        source += re.sub(r"\bTilingFunc\b", f"TilingFunc{number}", re.sub(r"\bKernelCustom\b", f"Alternative{number}Custom", text))
    return source, starts


def binds(texts: Iterable[str]) -> tuple[str, list[int]]:
    """One bind with a function for each of these."""
    source, starts = '#include <torch/extension.h>\n#include "pytorch_npu_helper.hpp"\n#include <vector>\n', []
    for number, text in enumerate(texts):
        starts.append(source.count("\n"))
        source += re.sub(r"\brun\b", f"run{number}", text)
    defined = "".join(f'  m.def("run{number}", &run{number});\n' for number in range(len(starts)))
    return source + f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{defined}}}\n", starts


def build(files: dict[str, str], workdir: Path, bind: str = "") -> None:
    """A library of a kernel, its host side and perhaps a bind."""
    from quick_builds import quick_builds

    from evokernel.backends.ascendc.build import build as compile_project
    from evokernel.backends.ascendc.project import Project

    parameters = len(re.findall(r"GM_ADDR", files[KERNEL].partition("void kernel_custom(")[2].partition(")")[0]))
    project = Project(
        op="KernelCustom",
        entry="kernel_custom",
        parameter_count=parameters,
        files=files,
        kernel_file=KERNEL,
        host_files=(HOST,),
        tiling_header="tiling.h",
        tiling_struct="optiling::KernelCustomTilingData",
        dtypes={"X": "float", "Y": "float", "OUT": "float"},
        bind_source=bind,
    )
    with quick_builds():
        compile_project(project, workdir)


def called(workdir: Path, level: str, calls: Sequence[dict[str, Any]]) -> list[Result]:
    """Run these calls in a separate process; returns their results."""
    order = json.dumps({"workdir": str(workdir), "level": level, "calls": calls})
    done = subprocess.run([sys.executable, __file__], input=order, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr[-2000:]}"
    return [Result(*row[:3], notes=tuple(row[3]), remarks=tuple(row[4])) for row in map(json.loads, done.stdout.splitlines())]


def serve() -> None:
    """The process that calls them."""
    import numpy as np

    from evokernel.backends.ascendc.chips import find_chip
    from evokernel.backends.ascendc.loader import AscendcKernel, preload_simulator
    from evokernel.core.backend import Arguments, Array
    from evokernel.core.errors import CandidateError

    order = json.loads(sys.stdin.read())
    workdir = Path(order["workdir"])
    preload_simulator(workdir / "libsimulator.so")
    (workdir / "plan.json").write_text("{}")
    kernel = AscendcKernel(workdir, "libsimulator.so", "operator.so", order["level"], find_chip("910B2").runtime_config_text(), 15)
    for call in order["calls"]:
        shapes = call.get("shapes", {})
        arrays = [Array(name, "float32", np.full(shapes.get(name, SHAPE), 2.5, np.float32)) for name in call["inputs"]]
        scalars = tuple((name, type(value).__name__, value) for name, value in call["numbers"])
        out = Array("out", "float32", np.zeros(shapes.get("out", SHAPE), np.float32))
        kernel.plan = {"op": call.get("op", "KernelCustom"), "function": call.get("function", ""), "call": call.get("call", [])}
        said = ["", "", ""]
        try:
            kernel.bind(Arguments(tuple(arrays), scalars, (out,)))()
        except CandidateError as error:
            said = error.detail.split("\t")[1:]
        noted = [] if said[0] else [note[0] for note in json.loads(kernel.simulator.simulator_report())["notes"]]
        sys.stdout.write(json.dumps([*said, [code for code in noted if code[0] == "E"], [code for code in noted if code[0] == "W"]]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
