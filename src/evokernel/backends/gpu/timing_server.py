"""The timing server: times the candidate, the best kernel so far and PyTorch in turn, on equal tensors, in one CUDA context.

This process contains a candidate's device code but none of its host code, so events, host clock and tensors are trustworthy. It reads
one JSON request per line from stdin and answers on stdout. A kernel that breaks the context ends the process; the verifier starts another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.backends.gpu.driver import STICKY, DeviceError, Driver, DriverMissing
from evokernel.backends.gpu.program import FILE, Program, read_programs, validate_program
from evokernel.backends.gpu.replay import POISON_BYTE, BoundProgram, GuardedBuffer, LoadedModules, classify_driver_error, read_images
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.statistics import median_interval, quantile

if TYPE_CHECKING:
    from evokernel.backends.gpu.device_inputs import DeviceInputs

FLUSHED, LEAST_FLUSH = 2, 128 << 20
"""Multiple of the L2 cache size that is written between two timed calls."""
WARM_UP, WARM_S, MOST_WARM, TUNED = 3, 0.002, 1000, 5
PAIRS, FEWEST, MOST, LONGER = 20, 6, 60, 3.0
ROUND_S, MOST_CALLS = 0.002, 9
PRECISION, DRAW_SHARE = 0.01, 0.3
EARLY_US = 5.0
"""Microseconds by which events may exceed the host's clock, which is read later."""
HELD, HELD_US, MOST_HELD_US = 2.0, 20.0, 5000.0
"""How long the device is kept busy before a call, relative to the host's recent issue time, so that only the device is timed."""
BEHIND, BEHIND_US = 1.5, 200.0
"""In a window of many calls, by how much the host's clock may exceed events."""


class TimedSide:
    """One timed implementation: candidate, incumbent or baseline."""

    def __init__(self, name: str, start: Callable[[], object], prepare: Callable[[], None], collect: Callable[[], None]) -> None:
        self.name, self.start, self.prepare, self.collect = name, start, prepare, collect
        self.samples: list[float] = []
        self.warm_us, self.calls = 0.0, 1
        self.issue_us = 0.0
        """Recent time that the host took to issue it."""


class KernelTensors:
    """A kernel's own copies of the task's tensors, with guard bands around them, as in the check."""

    def __init__(self, driver: Driver, scene: DeviceInputs) -> None:
        self.driver, self.scene = driver, scene
        self.inputs, self.outputs = (
            [GuardedBuffer(driver, tensor_bytes(tensor)) for tensor in part] for part in (scene.kernel_inputs, scene.outputs)
        )

    @property
    def places(self) -> list[int]:
        return [room.place for room in (*self.inputs, *self.outputs)]

    def fill(self) -> None:
        for room, tensor in zip(self.inputs, self.scene.kernel_inputs):
            self.driver.copy(room.place, tensor.data_ptr(), room.count)
        for room in self.outputs:
            self.driver.fill(room.place, POISON_BYTE, room.count)

    def collect(self) -> None:
        """Copies the outputs; raises CandidateError if a timed call wrote outside its tensors or changed its inputs."""
        if not all(room.is_guard_intact() for room in (*self.inputs, *self.outputs)):
            raise CandidateError("out_of_bounds", "a timed call wrote outside its tensors, although earlier calls did not")
        for room, tensor in zip(self.inputs, self.scene.kernel_inputs):
            copy = tensor.clone()
            self.driver.copy(copy.data_ptr(), room.place, room.count)
            if not self.scene.is_same(copy, tensor):
                raise CandidateError("inputs", "a timed call changed its inputs, although earlier calls did not; inputs are read-only")
        for room, tensor in zip(self.outputs, self.scene.outputs):
            self.driver.copy(tensor.data_ptr(), room.place, room.count)

    def close(self) -> None:
        for room in (*self.inputs, *self.outputs):
            room.close()


class TimingSession:
    """One timing request: alternates the sides and collects samples."""

    def __init__(self, driver: Driver, scene: DeviceInputs, seconds: float) -> None:
        import torch

        self.driver, self.scene, self.seconds = driver, scene, seconds
        self.flush = torch.empty(max(FLUSHED * driver.attributes["l2_bytes"], LEAST_FLUSH), dtype=torch.int8, device="cuda")
        self.before, self.after = driver.event(), driver.event()

    def time_call_us(self, side: TimedSide) -> float:
        """Times one call on changed inputs and poisoned outputs, with cold caches, issued completely before it starts."""
        self.scene.change()
        side.prepare()
        self.flush.fill_(1)
        start = time.perf_counter()
        self.keep_device_busy(min(HELD * side.issue_us + HELD_US, MOST_HELD_US))
        self.driver.record(self.before, 0)
        issue_start = time.perf_counter()
        side.start()
        self.driver.record(self.after, 0)
        side.issue_us = max(0.9 * side.issue_us, (time.perf_counter() - issue_start) * 1e6)
        self.driver.synchronize()  # all streams
        host_us = (time.perf_counter() - start) * 1e6
        device_us = self.driver.elapsed_us(self.before, self.after)
        if device_us > host_us + EARLY_US:
            raise InfraError(f"events show {device_us:.1f} µs, but the host's clock shows only {host_us:.1f}")
        return device_us

    def keep_device_busy(self, microseconds: float) -> None:
        """Keeps the device busy for some microseconds of its own clock."""
        import torch

        torch.cuda._sleep(int(microseconds * self.driver.attributes["clock_khz"] / 1000))

    def add_sample(self, side: TimedSide) -> None:
        """Adds the median of a few calls to the samples."""
        side.samples.append(quantile([self.time_call_us(side) for _ in range(side.calls)], 0.5))

    def measure_warm(self, side: TimedSide) -> None:
        """Times many calls in a row with warm caches, by events and by the host's clock."""
        count = max(5, min(MOST_WARM, int(WARM_S * 1e6 / max(quantile(side.samples, 0.5), 1.0))))
        side.start()
        self.driver.synchronize()
        start = time.perf_counter()
        self.driver.record(self.before, 0)
        for _ in range(count):
            side.start()
        self.driver.record(self.after, 0)
        self.driver.synchronize()
        host_us = (time.perf_counter() - start) * 1e6
        device_us = self.driver.elapsed_us(self.before, self.after)
        if not device_us - EARLY_US <= host_us <= BEHIND * device_us + BEHIND_US:
            raise InfraError(f"{count} calls take {device_us:.0f} µs by events and {host_us:.0f} µs by the host's clock")
        side.warm_us = device_us / count

    def run(self, sides: list[TimedSide]) -> None:
        """Alternates all sides until the ratios are precise enough or the time is up."""
        for side in sides:
            for _ in range(WARM_UP):
                once = self.time_call_us(side)
            side.calls = max(1, min(MOST_CALLS, int(ROUND_S * 1e6 / max(once, 1.0))))
        start, drawing_s = time.perf_counter(), 0.0
        while not self.has_enough_samples(sides, time.perf_counter() - start - drawing_s):
            if drawing_s <= DRAW_SHARE * (time.perf_counter() - start + 0.1):
                draw_start = time.perf_counter()
                self.scene.draw()
                drawing_s += time.perf_counter() - draw_start
            for side in list(sides) if len(sides[0].samples) % 2 else list(reversed(sides)):
                self.add_sample(side)
                self.check_outputs(side, sides)
        for side in sides:
            self.measure_warm(side)

    def check_outputs(self, side: TimedSide, sides: list[TimedSide]) -> None:
        """Checks the outputs of a side's last call. If the incumbent fails, the candidate is timed without it."""
        if side.name not in ("candidate", "incumbent"):
            return
        try:
            side.collect()
            self.scene.check_outputs()
        except CandidateError:
            if side.name == "candidate":
                raise
            sides.remove(side)

    def has_enough_samples(self, sides: list[TimedSide], elapsed_s: float) -> bool:
        sample_count = len(sides[0].samples)
        if sample_count < FEWEST:
            return False
        if sample_count < PAIRS:
            return elapsed_s > LONGER * self.seconds
        interval = median_interval([other / own for own, other in zip(sides[0].samples, sides[-1].samples)])
        is_known = interval is not None and (interval[1] - interval[0]) / (interval[1] + interval[0]) < PRECISION
        return is_known or elapsed_s > self.seconds or sample_count >= MOST


class TimingServer:
    """Holds the CUDA context and the compiled baselines."""

    def __init__(self, number: int) -> None:
        self.driver = Driver(number)
        self.compiled_modules: dict[str, Any] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        from evokernel.backends.gpu.device_inputs import DeviceInputs

        if "ceilings" in order:
            from evokernel.backends.gpu.ceilings import measure_ceilings

            return measure_ceilings(self.driver)
        scene = DeviceInputs(order["source"], order["task"], order["bench"], order["seed"], (order["atol"], order["rtol"]))
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
        program: Program = read_programs(workdir / file)[key]
        validate_program(program)
        own = resources.enter_context(closing(KernelTensors(self.driver, scene)))
        modules = resources.enter_context(closing(LoadedModules(self.driver, read_images(workdir))))
        bound_program = resources.enter_context(closing(BoundProgram(self.driver, modules, program, own.places)))

        def prepare() -> None:
            own.fill()
            bound_program.poison()

        return TimedSide(name, bound_program.start, prepare, own.collect)

    def make_baseline(self, name: str, order: dict[str, Any], scene: DeviceInputs) -> TimedSide:
        import torch

        if name == "eager":
            return TimedSide(name, scene.run_eager, do_nothing, do_nothing)
        module = self.compiled_modules.setdefault(order["source"], torch.compile(scene.module))

        def run() -> object:
            with torch.no_grad():
                return module(*scene.args)

        run()
        return TimedSide(name, run, do_nothing, do_nothing)


def tensor_bytes(tensor: Any) -> int:
    """Returns the number of bytes of a tensor."""
    return int(tensor.numel() * tensor.element_size())


def do_nothing() -> None:
    """Does nothing: PyTorch allocates its own outputs."""


def main() -> None:
    """Serves requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep library output away from the answers
    number = int(sys.argv[2])
    try:
        server = TimingServer(number)
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
