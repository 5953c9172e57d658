"""Takes one candidate through CANN: the verifier builds it, a separate process runs it, and the profiler measures it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann import errors, package, profiler, quick_compile, worker
from evokernel.backends.ascendc.cann.call import BUILD_RECORD, NpuKernel, load_operator
from evokernel.backends.ascendc.cann.detect import NONE, NPU, Installation
from evokernel.backends.ascendc.cann.environment import DEVICE_VARIABLE, InstalledPackage, build_environment, run_environment
from evokernel.backends.ascendc.cann.generate import configure_presets, file_layout, generate_project, unique_vendor_name
from evokernel.backends.ascendc.cann.profiler import Measurement
from evokernel.backends.ascendc.cann.tools import ToolResult, run_tool
from evokernel.core.devices import hold_device, physical_device
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.sandbox import isolated_python

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.backend import Arguments

METRICS = "PipeUtilization,Memory,L2Cache,ArithmeticUtilization"
RUN_TIMEOUT_S = 180.0
TIMING_FOLDER = "timed"
LAUNCHES = 5
"""The first launch is a warm-up; the profiler reads the others."""


class CannPipeline:
    """`soc` is the chip's full name (`Ascend910B2`), `device` the NPU's number, `sandboxed` whether tools run in the sandbox."""

    def __init__(
        self, installation: Installation, soc: str, device: int = 0, build_timeout_s: float = 600.0, sandboxed: bool = True
    ) -> None:
        if installation.level == NONE or installation.home is None:
            raise UserError(installation.fix)
        self.installation, self.home, self.soc, self.device = installation, installation.home, soc, device
        self.build_timeout_s, self.sandboxed = build_timeout_s, sandboxed

    def refusal_reason(self, project: Project) -> str:
        """Why CANN cannot run a project; "" if it can. CANN calls an operator through aclnn, not through a model's binding."""
        if project.bind_source and self.installation.level == NPU:
            return f"{project.op} has its own PyTorch binding, which only the simulator supports: set backend.toolchain=simulator"
        return ""

    def build(self, project: Project, description: str, workdir: Path) -> None:
        """Build a candidate in `workdir`, in the verifier's process. `description` is msopgen's JSON.

        First bisheng compiles the kernel alone, which takes seconds. A package is built only if there is an NPU, or if this toolkit's
        bisheng cannot compile a single kernel.
        """
        if why := self.refusal_reason(project):
            raise UserError(why)
        variables = build_environment(workdir, self.home)
        compiles = quick_compile.check_compiles(project, self.installation.tools["bisheng"], workdir, variables)
        if compiles and self.installation.level != NPU:
            return
        self.build_package(project, description, workdir, variables)

    def build_package(self, project: Project, description: str, workdir: Path, variables: dict[str, str]) -> InstalledPackage:
        """Build the operator project and install it for this candidate only."""
        msopgen = self.installation.tools["msopgen"]
        if msopgen is None:
            raise UserError(self.installation.fix)
        folder, name = generate_project(project, description, self.soc, msopgen, workdir, variables), unique_vendor_name(project)
        configure_presets(folder, self.home, name)
        installer = package.build_package(folder, workdir, variables, self.build_timeout_s, file_layout(project))
        package_files = package.install_package(installer, workdir, variables, name)
        record = {
            "op": project.op,
            "library": str(package_files.library),
            "home": str(self.home),
            "variables": run_environment(workdir, self.home, package_files, self.device),
        }
        (workdir / BUILD_RECORD).write_text(json.dumps(record))
        return package_files

    def load(self, workdir: Path) -> NpuKernel:
        """Load the operator in a process that may open the NPU; only one operator of a type per process."""
        return load_operator(workdir)

    def run_operator(self, workdir: Path, arguments: Arguments, calls: int = 1) -> None:
        """Run the operator in a separate process and fill the outputs."""
        folder = workdir / "run"
        order = worker.write_order(folder, workdir, arguments, calls)
        self.raise_for_worker_failure(self.run_on_npu(worker_command(order), workdir), folder)
        worker.read_outputs(folder, arguments)

    def time_operator(self, workdir: Path, arguments: Arguments) -> Measurement:
        """Measure the kernel with the profiler on the NPU, without copies to and from it."""
        folder = workdir / TIMING_FOLDER
        worker.write_order(folder, workdir, arguments, LAUNCHES)
        return self.profile_order(workdir, folder)

    def profile_order(self, workdir: Path, folder: Path) -> Measurement:
        """Measure the order in a folder with the profiler."""
        script = folder / "run.sh"
        script.write_text(f"exec {shlex.join(worker_command(folder / worker.ORDER_FILE))}\n")
        op = json.loads((workdir / BUILD_RECORD).read_text())["op"]
        output = folder / "profile"
        options = [f"--output={output}", f"--aic-metrics={METRICS}", f"--launch-count={LAUNCHES}", f"--kernel-name={op}"]
        with hold_device(f"npu{physical_device(self.device, DEVICE_VARIABLE)}"):
            self.raise_for_worker_failure(self.run_on_npu([*self.profiler_command(), *options, "bash", str(script)], workdir), folder)
        measurement = profiler.read_profile(output, op)
        if len(measurement.duration_us) > LAUNCHES:
            raise CandidateError(
                "forbidden", f"the profiler's tables hold {len(measurement.duration_us)} launches, but the worker made only {LAUNCHES}"
            )
        return measurement._replace(duration_us=measurement.duration_us[1:]) if len(measurement.duration_us) > 1 else measurement

    def raise_if_npu_lost(self, workdir: Path) -> None:
        """Raise InfraError if the NPU is not usable even without a candidate."""
        result = self.run_on_npu(isolated_python.isolated_command(worker.__name__, "probe_npu", str(self.home)), workdir)
        if result.timed_out or result.code:
            why = f"it did not answer within {RUN_TIMEOUT_S:g} s" if result.timed_out else result.text.strip()[-300:] or "no output"
            raise InfraError(f"NPU {self.device} is lost: {why}")

    def profiler_command(self) -> list[str]:
        """The command of the profiler: `msopprof`, or `msprof op` in older versions."""
        if newer := self.installation.tools.get("msopprof"):
            return [newer]
        if older := self.installation.tools.get("msprof"):
            return [older, "op"]
        raise UserError(self.installation.fix or "No profiler was found: install msprof or msopprof with the CANN toolkit")

    def run_on_npu(self, command: Iterable[str], workdir: Path) -> ToolResult:
        """Run a process that may use the NPU."""
        variables = json.loads((workdir / BUILD_RECORD).read_text())["variables"]
        return run_tool(list(command), workdir, variables, RUN_TIMEOUT_S, sandboxed=self.sandboxed, uses_npu=True)

    def raise_for_worker_failure(self, result: ToolResult, folder: Path) -> None:
        """Raise for a failed worker: its answer file names the cause, unless it could not write one."""
        if result.timed_out:
            raise CandidateError("timeout", f"the operator did not finish within {RUN_TIMEOUT_S:g} s on the NPU")
        try:
            answer = json.loads((folder / worker.ANSWER_FILE).read_text())
        except (OSError, ValueError):
            answer = None
        if answer and answer["reason"]:
            raise CandidateError(answer["reason"], answer["detail"])
        if answer and answer["detail"]:
            raise InfraError(answer["detail"])
        if result.code and answer:
            raise InfraError(f"The profiler failed although the operator ran: {result.text.strip()[-300:] or 'it said nothing'}")
        if answer is None:
            raise (
                errors.explain_failure(result.text, errors.RUN)
                if not result.is_killed
                else CandidateError("killed", "the process on the NPU was killed")
            )


def worker_command(order: Path) -> list[str]:
    return isolated_python.isolated_command(worker.__name__, "main", str(order))
