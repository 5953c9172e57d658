"""The timing server: the verifier's own process on the device. It checks kernels at the timed size and times them, in one CUDA context.

This process contains a candidate's device code but none of its host code, so events, host clock and tensors are trustworthy. It reads
one JSON request per line from stdin and answers on stdout; before an answer, lines say whether the kernel or the reference is running.
A kernel that breaks the context ends the process; the verifier starts another.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.backends.gpu.driver import STICKY, DeviceError, Driver, DriverMissing
from evokernel.backends.gpu.kernel_tensors import KernelTensors, RecordedKernel, bind_program
from evokernel.backends.gpu.program import FILE
from evokernel.backends.gpu.replay import classify_driver_error
from evokernel.backends.gpu.timing_session import WARM_UP, TimedSide, TimingSession
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.statistics import quantile

if TYPE_CHECKING:
    from evokernel.backends.gpu.device_inputs import DeviceInputs
    from evokernel.core.backend import DeviceCheckResult
    from evokernel.core.records import Task, Tensor

TUNED = 5
"""Timed calls of each configuration."""
OUTSIDE = "a timed call wrote outside its tensors, although earlier calls did not"
CHANGED = "a timed call changed its inputs, although earlier calls did not; inputs are read-only"


class TimingServer:
    """Holds the CUDA context, the tensors of the last task and the compiled baselines."""

    def __init__(self, number: int, report: Callable[[str], None], device: str = "cuda") -> None:
        self.driver, self.report, self.number, self.device = Driver(number), report, number, device
        self.compiled_modules: dict[str, Any] = {}
        self.scene: DeviceInputs | None = None
        self.scene_key = ""
        self.is_compiler_loaded = False

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        if "warm_up" in order:
            return self.warm_up()
        if "ceilings" in order:
            from evokernel.backends.gpu.ceilings import measure_ceilings

            self.scene = None
            return measure_ceilings(self.driver)
        if "check" in order:
            return self.check(order)
        scene = self.get_scene(order)
        if "prepare" in order:
            self.load_compiler(order)
            self.driver.synchronize()
            return {}
        if "tune" in order:
            return {"fastest": self.find_fastest(order, scene)}
        session = TimingSession(self.driver, scene, order["seconds"])
        with ExitStack() as resources:
            sides = [self.load_kernel("candidate", Path(order["candidate"]), order["key"], scene, resources)]
            if order.get("incumbent"):
                sides.append(self.load_kernel("incumbent", Path(order["incumbent"]), order["key"], scene, resources))
            sides += [self.make_baseline(name, order, scene) for name in order["baselines"]]
            session.run(sides)
        return {side.name: {"samples_us": side.samples, "warm_us": side.warm_us} for side in sides}

    def warm_up(self) -> dict[str, Any]:
        """Loads PyTorch and its modules while the verifier still builds the first candidate."""
        import torch

        import evokernel.backends.gpu.device_check
        import evokernel.backends.gpu.device_inputs  # noqa: F401

        torch.cuda.set_device(self.number)
        torch.zeros(1, device=self.device).add_(1)
        self.driver.synchronize()
        return {}

    def get_scene(self, order: dict[str, Any]) -> DeviceInputs:
        """Returns the task's tensors with new contents; those of the last task stay on the device."""
        from evokernel.backends.gpu.device_inputs import DeviceInputs

        key = json.dumps([order["source"], order["bench"]], sort_keys=True)
        if self.scene is None or key != self.scene_key:
            self.drop_scene()
            tolerance = (order["atol"], order["rtol"])
            self.scene, self.scene_key = DeviceInputs(order["source"], order["task"], order["bench"], order["seed"], tolerance), key
        else:
            self.scene.random.seed(order["seed"])
            self.scene.draw()
        return self.scene

    def load_compiler(self, order: dict[str, Any]) -> None:
        """Loads torch.compile by compiling a trivial function, if the request needs it. Other measurements need not wait for that."""
        if "compile" not in order["baselines"] or self.is_compiler_loaded:
            return
        import torch

        self.is_compiler_loaded = True
        with suppress(RuntimeError):  # reported when the baseline is compiled
            torch.compile(torch.neg)(torch.zeros(8, device=self.device))

    def drop_scene(self) -> None:
        """Frees the tensors of the last task."""
        import torch

        self.scene, self.scene_key = None, ""
        torch.cuda.empty_cache()

    def check(self, order: dict[str, Any]) -> dict[str, Any]:
        """Checks a kernel at the timed size; refuses a task that does not fit into device memory with the figures."""
        import torch

        from evokernel.backends.gpu.device_check import DeviceCheck
        from evokernel.backends.gpu.device_memory import USABLE_SHARE, describe_shortage, plan_memory
        from evokernel.core.backend import DeviceCase
        from evokernel.core.records import Task
        from evokernel.reference.device_reference import DeviceReference
        from evokernel.reference.module import Reference
        from evokernel.reference.region_graph import RegionError

        task = Task.model_validate(order["check"])
        self.drop_scene()
        total_bytes = torch.cuda.get_device_properties(self.number).total_memory
        if shortage := describe_shortage(task, total_bytes):
            raise UserError(f"task {task.id} needs {shortage}. Choose --size laptop, or reduce its sizes.")
        plan = plan_memory(task)
        torch.cuda.reset_peak_memory_stats()
        with ExitStack() as resources:
            kernel = self.bind_kernel(task, order, resources)
            free_bytes = torch.cuda.mem_get_info()[0] - (1 - USABLE_SHARE) * total_bytes
            torch.cuda.set_per_process_memory_fraction(USABLE_SHARE - kernel.nbytes / total_bytes)
            room_bytes = int(free_bytes - plan.check_bytes + kernel.nbytes)
            source = Reference(task.source, task.id, task.sizes["bench"])
            reference = DeviceReference(source, self.device, plan.reference_bytes, room_bytes)
            check = DeviceCheck(task, order["protocol"], reference, kernel, self.report, order["limit_s"])
            try:
                result = check.run([DeviceCase(*fields) for fields in order["cases"]])
            except RegionError as error:
                raise InfraError(f"{task.id} cannot be checked on this GPU: {error}. Choose --size laptop, or reduce its sizes.") from error
            nbytes, is_split = kernel.nbytes, reference.is_split
        peak_bytes = torch.cuda.max_memory_allocated() + nbytes
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)
        memory = {"device_bytes": peak_bytes, "host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "split": is_split}
        return {"result": encode_result(result), "memory": memory}

    def bind_kernel(self, task: Task, order: dict[str, Any], resources: ExitStack) -> RecordedKernel:
        """Loads the candidate with tensors of its own."""
        import torch

        def make_blank(tensors: Sequence[Tensor]) -> list[torch.Tensor]:
            return [torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype), device="meta") for tensor in tensors]

        arguments, outputs = (*task.signature.inputs, *task.signature.params), task.signature.outputs
        return RecordedKernel(self.driver, Path(order["candidate"]), order["key"], make_blank(arguments), make_blank(outputs), resources)

    def find_fastest(self, order: dict[str, Any], scene: DeviceInputs) -> int:
        """Returns the fastest configuration; configurations that the device refuses are skipped."""
        session, latencies = TimingSession(self.driver, scene, 0.0), dict[int, float]()
        for number, file in enumerate(order["tune"]):
            with ExitStack() as resources:
                try:
                    side = self.load_kernel(file, Path(order["candidate"]), order["key"], scene, resources, file)
                    times = [session.time_call_us(side) for _ in range(WARM_UP + TUNED)]
                    latencies[number] = quantile(times[WARM_UP:], 0.25)
                except DeviceError as error:
                    if error.code in STICKY or (number + 1 == len(order["tune"]) and not latencies):
                        raise
        return min(latencies, key=lambda number: latencies[number])

    def load_kernel(self, name: str, workdir: Path, key: str, scene: DeviceInputs, resources: ExitStack, file: str = FILE) -> TimedSide:
        tensors = resources.enter_context(closing(KernelTensors(self.driver, scene.kernel_inputs, scene.outputs)))
        program = bind_program(self.driver, tensors, workdir, key, resources, file)

        def prepare() -> None:
            tensors.fill(scene.kernel_inputs)
            program.poison()

        def collect() -> None:
            if not tensors.is_guard_intact():
                raise CandidateError("out_of_bounds", OUTSIDE)
            if not tensors.has_inputs(scene.kernel_inputs):
                raise CandidateError("inputs", CHANGED)
            tensors.copy_outputs(scene.outputs)

        return TimedSide(name, program.start, prepare, collect)

    def make_baseline(self, name: str, order: dict[str, Any], scene: DeviceInputs) -> TimedSide:
        import torch

        if name == "eager":
            return TimedSide(name, scene.run_eager, do_nothing, do_nothing)
        if self.scene_key not in self.compiled_modules:
            self.compiled_modules.clear()  # a compiled module keeps its parameters on the device
            self.compiled_modules[self.scene_key] = torch.compile(scene.module)
        module = self.compiled_modules[self.scene_key]

        def run() -> object:
            with torch.no_grad():
                return module(*scene.args)

        run()
        return TimedSide(name, run, do_nothing, do_nothing)


def encode_result(result: DeviceCheckResult) -> dict[str, Any]:
    """Returns a result as JSON; `decode_result` in `latency` reads it."""
    cases = [case._asdict() | {"difference": case.difference._asdict() if case.difference else None} for case in result.cases]
    return {"cases": cases, "note": result.note}


def do_nothing() -> None:
    """Does nothing: PyTorch allocates its own outputs."""


def main() -> None:
    """Serves requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep library output away from the answers
    number = int(sys.argv[2])

    def report(phase: str) -> None:
        answers.write(json.dumps({"phase": phase}) + "\n")

    try:
        server = TimingServer(number, report)
    except DriverMissing as error:
        answers.write(json.dumps({"infra": str(error)}) + "\n")
        return
    answers.write(json.dumps({"ready": server.driver.name}) + "\n")
    for line in sys.stdin:
        is_over = False
        try:
            answer = server.answer(json.loads(line))
        except CandidateError as error:
            answer = {"refused": [error.reason, error.detail]}
        except DeviceError as error:
            blame = classify_driver_error(error)
            answer = {"refused": [blame.reason, blame.detail]} if isinstance(blame, CandidateError) else {"infra": str(blame)}
            is_over = error.code in STICKY
        except UserError as error:
            answer = {"user": str(error)}
        except (InfraError, RuntimeError) as error:  # torch raises these for every device failure
            answer = {"infra": f"{type(error).__name__}: {str(error).splitlines()[0][:400]}"}
            is_over = isinstance(error, RuntimeError)
        answers.write(json.dumps(answer) + "\n")
        if is_over:
            return


if __name__ == "__main__":
    main()
