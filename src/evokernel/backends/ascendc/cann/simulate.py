"""Without a card, but with the toolchain: a kernel run in CANN's debug mode on the CPU, and timed on its simulator.

Both need the tiling data, which comes from the candidate's host code as the twin runs it. The simulator is exact to the cycle for one
core's pipes but thousands of times slower than a card: use it for small sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors, quick_compile
from evokernel.backends.ascendc.cann.detect import Found
from evokernel.backends.ascendc.cann.environment import simulated
from evokernel.backends.ascendc.cann.profiler import Measured, number, rows
from evokernel.backends.ascendc.cann.quick_compile import OURS, Tiled
from evokernel.backends.ascendc.cann.tools import run
from evokernel.backends.native.toolchain import find, missing
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.protocols import Arguments

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

LIBRARY = "tools/tikicpulib/lib"
MODELS = ("cpudebug", "cpudebug_stubreg", "cpudebug_npuchk", "cpudebug_cceprint")


def debugged(
    project: Project,
    found: Found,
    soc: str,
    arguments: Arguments,
    tiled: Tiled,
    workdir: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    compiler: str = "",
) -> None:
    """Runs the kernel in CPU debug mode and fills the outputs. The toolkit's checks end it with a message: a CandidateError."""
    home = home_of(found)
    library = home / LIBRARY
    if not library.is_dir():
        raise UserError(f"CANN at {home} has no CPU debug mode ({LIBRARY} is missing): install the full toolkit")
    path = find(compiler)
    if path is None:
        raise UserError(missing(compiler) or "no C++ compiler")
    places = [library, library / soc]
    folder = quick_compile.write(project, workdir, tiled.key)
    command = [
        *(path, "-std=c++17", "-g", "-DASCENDC_CPU_DEBUG=1", "-D__CCE_KT_TEST__=1", f"-I{OURS}", "-I.", "-Iop_kernel", "-Iop_host"),
        *(f"-I{library / 'include'}", f"-I{home / 'include'}", str(OURS / "cpu_main.cpp"), "-o", "cpu"),
        *(word for place in places for word in (f"-L{place}", f"-Wl,-rpath,{place}")),
        *(f"-l{name}" for name in MODELS),
    ]
    done = run(command, folder, environment, timeout_s, [str(OURS)], writable=workdir)
    quick_compile.judged(done, project, timeout_s)
    order = quick_compile.write_order(folder, arguments, tiled)
    ran = run([str(folder / "cpu"), str(order)], folder, environment, timeout_s, writable=workdir)
    if ran.timed_out:
        raise CandidateError("timeout", f"the kernel did not end within {timeout_s:g} s in CPU debug mode")
    if ran.code:
        raise errors.explain(ran.text, errors.RUN)
    quick_compile.read_outputs(folder, arguments.outputs)


def timed(
    project: Project,
    found: Found,
    soc: str,
    arguments: Arguments,
    tiled: Tiled,
    workdir: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Measured:
    """What the simulator says the kernel takes, from the first instruction on any core to the last."""
    home, bisheng = home_of(found), found.tools["bisheng"]
    profiler, words = simulator_command(found)
    if bisheng is None:
        raise UserError(f"CANN at {home} has no bisheng: install the full toolkit")
    made = quick_compile.program(project, bisheng, workdir, environment, tiled.key, ["--run-mode=sim"], "simulated")
    if made is None:
        raise UserError("this version of CANN compiles no kernel for the simulator by itself: set backend.toolchain=twin for estimates")
    order = quick_compile.write_order(made.parent, arguments, tiled)
    output = workdir / "simulator"
    command = [profiler, *words, f"--soc-version={soc}", f"--output={output}", str(made), str(order)]
    done = run(command, made.parent, simulated(home, soc, environment), timeout_s, writable=workdir)
    if done.timed_out:
        raise CandidateError("timeout", f"the simulator did not finish within {timeout_s:g} s")
    if done.code:
        raise errors.explain(done.text, errors.RUN)
    quick_compile.read_outputs(made.parent, arguments.outputs)
    return read(output, tiled.block_dim)


def home_of(found: Found) -> Path:
    if found.home is None:
        raise UserError(found.why)
    return found.home


def simulator_command(found: Found) -> tuple[str, list[str]]:
    """The newer tool has the simulator as its first word, the older as a part of `op`."""
    if newer := found.tools.get("msopprof"):
        return newer, ["simulator"]
    if older := found.tools.get("msprof"):
        return older, ["op", "simulator"]
    raise UserError("no simulator: install msprof or msopprof with the CANN toolkit")


def read(output: Path, block_dim: int) -> Measured:
    """The simulator's trace of every instruction on every core (Chrome's format, in microseconds), and cycles by pipe where told."""
    traces = sorted(output.rglob("trace.json"), key=lambda path: len(path.parts))
    if not traces:
        raise InfraError("the simulator left no trace.json")
    try:
        told = json.loads(traces[0].read_text())
        events = [event for event in (told["traceEvents"] if isinstance(told, dict) else told) if event.get("ph") == "X"]
        spans = [(float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in events]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfraError(f"the simulator's trace.json cannot be read: {error}") from error
    if not spans:
        raise InfraError("the simulator's trace.json holds no instruction")
    elapsed = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return Measured((elapsed,), block_dim, cycles(output), None)


def cycles(output: Path) -> dict[str, float]:
    """Cycles of each pipe, as the mean over cores."""
    sums: dict[str, float] = {}
    tables = sorted(output.rglob("core*_instr_exe*.csv"))
    for row in (row for path in tables for row in rows(path)):
        lower = {name.lower(): value for name, value in row.items()}
        value = number(lower.get("cycles", ""))
        if value is not None and (pipe := lower.get("pipe", "")):
            sums[f"{pipe.lower()}_cycles"] = sums.get(f"{pipe.lower()}_cycles", 0.0) + value
    return {name: value / len(tables) for name, value in sums.items()}
