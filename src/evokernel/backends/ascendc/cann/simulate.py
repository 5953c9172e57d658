"""Runs a kernel without an NPU, with CANN's toolchain: in its CPU debug mode, and on its cycle-accurate simulator.

Both need the tiling data, which comes from the candidate's host code as our own simulator runs it. CANN's simulator is exact to the cycle
for the pipes of one core, but thousands of times slower than an NPU: use it for small sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors, quick_compile
from evokernel.backends.ascendc.cann.detect import Installation
from evokernel.backends.ascendc.cann.environment import simulator_environment
from evokernel.backends.ascendc.cann.profiler import Measurement, parse_number, read_rows
from evokernel.backends.ascendc.cann.quick_compile import LAUNCH_FOLDER, TilingResult
from evokernel.backends.ascendc.cann.tools import run_tool
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message
from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError, InfraError, UserError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

CPU_DEBUG_FOLDER = "tools/tikicpulib/lib"
CPU_DEBUG_LIBRARIES = ("cpudebug", "cpudebug_stubreg", "cpudebug_npuchk", "cpudebug_cceprint")


def run_cpu_debug(
    project: Project,
    installation: Installation,
    soc: str,
    arguments: Arguments,
    tiling: TilingResult,
    workdir: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    compiler: str = "",
) -> None:
    """Run the kernel in CPU debug mode and fill the outputs. A failed check of the toolkit raises CandidateError."""
    home = require_home(installation)
    library = home / CPU_DEBUG_FOLDER
    if not library.is_dir():
        raise UserError(f"CANN at {home} has no CPU debug mode ({CPU_DEBUG_FOLDER} is missing): install the full toolkit")
    path = find_compiler(compiler)
    if path is None:
        raise UserError(missing_compiler_message(compiler) or "no C++ compiler")
    places = [library, library / soc]
    folder = quick_compile.write_sources(project, workdir, tiling.key)
    command = [
        *(
            path,
            "-std=c++17",
            "-g",
            "-DASCENDC_CPU_DEBUG=1",
            "-D__CCE_KT_TEST__=1",
            f"-I{LAUNCH_FOLDER}",
            "-I.",
            "-Iop_kernel",
            "-Iop_host",
        ),
        *(f"-I{library / 'include'}", f"-I{home / 'include'}", str(LAUNCH_FOLDER / "cpu_main.cpp"), "-o", "cpu"),
        *(word for place in places for word in (f"-L{place}", f"-Wl,-rpath,{place}")),
        *(f"-l{name}" for name in CPU_DEBUG_LIBRARIES),
    ]
    result = run_tool(command, folder, environment, timeout_s, [str(LAUNCH_FOLDER)], writable=workdir)
    quick_compile.check_compile_result(result, project, timeout_s)
    order = quick_compile.write_order(folder, arguments, tiling)
    run_result = run_tool([str(folder / "cpu"), str(order)], folder, environment, timeout_s, writable=workdir)
    if run_result.timed_out:
        raise CandidateError("timeout", f"the kernel did not end within {timeout_s:g} s in CPU debug mode")
    if run_result.code:
        raise errors.explain_failure(run_result.text, errors.RUN)
    quick_compile.read_outputs(folder, arguments.outputs)


def time_on_simulator(
    project: Project,
    installation: Installation,
    soc: str,
    arguments: Arguments,
    tiling: TilingResult,
    workdir: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Measurement:
    """Time the kernel on CANN's simulator, from the first instruction on any core to the last."""
    home, bisheng = require_home(installation), installation.tools["bisheng"]
    profiler, words = simulator_command(installation)
    if bisheng is None:
        raise UserError(f"CANN at {home} has no bisheng: install the full toolkit")
    program = quick_compile.build_program(project, bisheng, workdir, environment, tiling.key, ["--run-mode=sim"], "simulated")
    if program is None:
        raise UserError(
            "This version of CANN cannot compile a single kernel for its simulator: set backend.toolchain=simulator to use estimates"
        )
    order = quick_compile.write_order(program.parent, arguments, tiling)
    output = workdir / "simulator"
    command = [profiler, *words, f"--soc-version={soc}", f"--output={output}", str(program), str(order)]
    result = run_tool(command, program.parent, simulator_environment(home, soc, environment), timeout_s, writable=workdir)
    if result.timed_out:
        raise CandidateError("timeout", f"CANN's simulator did not finish within {timeout_s:g} s")
    if result.code:
        raise errors.explain_failure(result.text, errors.RUN)
    quick_compile.read_outputs(program.parent, arguments.outputs)
    return read_trace(output, tiling.block_dim)


def require_home(installation: Installation) -> Path:
    if installation.home is None:
        raise UserError(installation.fix)
    return installation.home


def simulator_command(installation: Installation) -> tuple[str, list[str]]:
    """The command of CANN's simulator: `msopprof simulator`, or `msprof op simulator` in older versions."""
    if newer := installation.tools.get("msopprof"):
        return newer, ["simulator"]
    if older := installation.tools.get("msprof"):
        return older, ["op", "simulator"]
    raise UserError("CANN has no simulator here: install msprof or msopprof with the CANN toolkit")


def read_trace(output: Path, block_dim: int) -> Measurement:
    """Read the simulator's instruction trace (Chrome's format, in microseconds), and cycles by pipe if it reports them."""
    traces = sorted(output.rglob("trace.json"), key=lambda path: len(path.parts))
    if not traces:
        raise InfraError("CANN's simulator wrote no trace.json")
    try:
        trace = json.loads(traces[0].read_text())
        events = [event for event in (trace["traceEvents"] if isinstance(trace, dict) else trace) if event.get("ph") == "X"]
        spans = [(float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in events]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfraError(f"The trace.json of CANN's simulator cannot be read: {error}") from error
    if not spans:
        raise InfraError("The trace.json of CANN's simulator has no instruction")
    elapsed_us = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return Measurement((elapsed_us,), block_dim, read_pipe_cycles(output), None)


def read_pipe_cycles(output: Path) -> dict[str, float]:
    """Cycles of each pipe, the mean over cores."""
    sums: dict[str, float] = {}
    tables = sorted(output.rglob("core*_instr_exe*.csv"))
    for row in (row for path in tables for row in read_rows(path)):
        lower = {name.lower(): value for name, value in row.items()}
        value = parse_number(lower.get("cycles", ""))
        if value is not None and (pipe := lower.get("pipe", "")):
            sums[f"{pipe.lower()}_cycles"] = sums.get(f"{pipe.lower()}_cycles", 0.0) + value
    return {name: value / len(tables) for name, value in sums.items()}
