"""The process that holds the clock: kernels of a candidate, of the best so far and of PyTorch in turn, on equal tensors, in one context.

None of a candidate's host code is here, only its device code; so events, host clock and tensors are ours. Orders come on stdin, a line of
JSON each, answers go to stdout. A kernel that breaks the context ends the process; the judge starts another.
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

from evokernel.backends.gpu.driver import STICKY, Absent, DeviceError, Driver
from evokernel.backends.gpu.program import FILE, Program, read, refuse_impossible
from evokernel.backends.gpu.replay import POISON_BYTE, Bound, Loaded, Room, images, told
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.statistics import median_interval, quantile

if TYPE_CHECKING:
    from evokernel.backends.gpu.device_inputs import Scene

FLUSHED, LEAST_FLUSH = 2, 128 << 20
"""Times the second-level cache: so much is written between two calls that count."""
WARM_UP, WARM_S, MOST_WARM, TUNED = 3, 0.002, 1000, 5
PAIRS, FEWEST, MOST, LONGER = 20, 6, 60, 3.0
ROUND_S, MOST_CALLS = 0.002, 9
PRECISION, DRAW_SHARE = 0.01, 0.3
EARLY_US = 5.0
"""What events may show more than the host's clock, which is read later than they are."""
HELD, HELD_US, MOST_HELD_US = 2.0, 20.0, 5000.0
"""How long the device is kept busy before a call, by what the host took to start the last ones: then only the device is timed."""
BEHIND, BEHIND_US = 1.5, 200.0
"""In a window of many calls, how much more than events the host's clock may show."""


class Side:
    """Something that is timed."""

    def __init__(self, name: str, start: Callable[[], object], prepare: Callable[[], None], collect: Callable[[], None]) -> None:
        self.name, self.start, self.prepare, self.collect = name, start, prepare, collect
        self.samples: list[float] = []
        self.warm_us, self.calls = 0.0, 1
        self.issue_us = 0.0
        """What the host took to start it, lately."""


class Own:
    """A kernel's own tensors: copies of the task's, with guards around them as where it was checked, and nobody else's at hand."""

    def __init__(self, driver: Driver, scene: Scene) -> None:
        self.driver, self.scene = driver, scene
        self.inputs, self.outputs = ([Room(driver, size(tensor)) for tensor in part] for part in (scene.given, scene.outputs))

    @property
    def places(self) -> list[int]:
        return [room.place for room in (*self.inputs, *self.outputs)]

    def fill(self) -> None:
        for room, tensor in zip(self.inputs, self.scene.given):
            self.driver.copy(room.place, tensor.data_ptr(), room.count)
        for room in self.outputs:
            self.driver.fill(room.place, POISON_BYTE, room.count)

    def collect(self) -> None:
        """Hands the outputs over; refuses what a kernel that was right before does only here."""
        if not all(room.is_untouched() for room in (*self.inputs, *self.outputs)):
            raise CandidateError("out_of_bounds", "a timed call wrote outside of its tensors, where earlier ones did not")
        for room, tensor in zip(self.inputs, self.scene.given):
            copy = tensor.clone()
            self.driver.copy(copy.data_ptr(), room.place, room.count)
            if not self.scene.is_same(copy, tensor):
                raise CandidateError("inputs", "a timed call changed its inputs, where earlier ones did not")
        for room, tensor in zip(self.outputs, self.scene.outputs):
            self.driver.copy(tensor.data_ptr(), room.place, room.count)

    def close(self) -> None:
        for room in (*self.inputs, *self.outputs):
            room.close()


class Clock:
    """One order."""

    def __init__(self, driver: Driver, scene: Scene, seconds: float) -> None:
        import torch

        self.driver, self.scene, self.seconds = driver, scene, seconds
        self.flush = torch.empty(max(FLUSHED * driver.facts["l2_bytes"], LEAST_FLUSH), dtype=torch.int8, device="cuda")
        self.before, self.after = driver.event(), driver.event()

    def once_us(self, side: Side) -> float:
        """One call on changed inputs, over poisoned outputs, with nothing of either in the cache, all of it started before it begins."""
        self.scene.change()
        side.prepare()
        self.flush.fill_(1)
        began = time.perf_counter()
        self.hold(min(HELD * side.issue_us + HELD_US, MOST_HELD_US))
        self.driver.record(self.before, 0)
        issued = time.perf_counter()
        side.start()
        self.driver.record(self.after, 0)
        side.issue_us = max(0.9 * side.issue_us, (time.perf_counter() - issued) * 1e6)
        self.driver.synchronize()  # all streams
        host_us = (time.perf_counter() - began) * 1e6
        found = self.driver.elapsed_us(self.before, self.after)
        if found > host_us + EARLY_US:
            raise InfraError(f"events show {found:.1f} µs where the host's clock shows {host_us:.1f}")
        return found

    def hold(self, microseconds: float) -> None:
        """Keeps the device waiting, by its own cycles."""
        import torch

        torch.cuda._sleep(int(microseconds * self.driver.facts["clock_khz"] / 1000))

    def sample(self, side: Side) -> None:
        """A few calls; their middle."""
        side.samples.append(quantile([self.once_us(side) for _ in range(side.calls)], 0.5))

    def warm(self, side: Side) -> None:
        """Many calls in a row with everything where it was; by events, and by the host's clock."""
        count = max(5, min(MOST_WARM, int(WARM_S * 1e6 / max(quantile(side.samples, 0.5), 1.0))))
        side.start()
        self.driver.synchronize()
        began = time.perf_counter()
        self.driver.record(self.before, 0)
        for _ in range(count):
            side.start()
        self.driver.record(self.after, 0)
        self.driver.synchronize()
        host_us = (time.perf_counter() - began) * 1e6
        found = self.driver.elapsed_us(self.before, self.after)
        if not found - EARLY_US <= host_us <= BEHIND * found + BEHIND_US:
            raise InfraError(f"{count} calls take {found:.0f} µs by events and {host_us:.0f} by the host's clock")
        side.warm_us = found / count

    def run(self, sides: list[Side]) -> None:
        """Rounds of everybody in turn, until ratios are known well enough or the time is spent."""
        for side in sides:
            for _ in range(WARM_UP):
                once = self.once_us(side)
            side.calls = max(1, min(MOST_CALLS, int(ROUND_S * 1e6 / max(once, 1.0))))
        began, drawing_s = time.perf_counter(), 0.0
        while not self.enough(sides, time.perf_counter() - began - drawing_s):
            if drawing_s <= DRAW_SHARE * (time.perf_counter() - began + 0.1):
                started = time.perf_counter()
                self.scene.draw()
                drawing_s += time.perf_counter() - started
            for side in list(sides) if len(sides[0].samples) % 2 else list(reversed(sides)):
                self.sample(side)
                self.judge(side, sides)
        for side in sides:
            self.warm(side)

    def judge(self, side: Side, sides: list[Side]) -> None:
        """What its last call left. The best so far is held to the same; if it fails, the candidate is timed without it."""
        if side.name not in ("candidate", "incumbent"):
            return
        try:
            side.collect()
            self.scene.refuse_wrong()
        except CandidateError:
            if side.name == "candidate":
                raise
            sides.remove(side)

    def enough(self, sides: list[Side], elapsed_s: float) -> bool:
        done = len(sides[0].samples)
        if done < FEWEST:
            return False
        if done < PAIRS:
            return elapsed_s > LONGER * self.seconds
        interval = median_interval([other / own for own, other in zip(sides[0].samples, sides[-1].samples)])
        is_known = interval is not None and (interval[1] - interval[0]) / (interval[1] + interval[0]) < PRECISION
        return is_known or elapsed_s > self.seconds or done >= MOST


class Server:
    """Keeps the context, and what torch.compile made of a task."""

    def __init__(self, number: int) -> None:
        self.driver = Driver(number)
        self.compiled: dict[str, Any] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        from evokernel.backends.gpu.device_inputs import Scene

        if "ceilings" in order:
            from evokernel.backends.gpu.ceilings import measure

            return measure(self.driver)
        scene = Scene(order["source"], order["task"], order["bench"], order["seed"], (order["atol"], order["rtol"]))
        if "tune" in order:
            return {"fastest": self.fastest(order, scene)}
        clock = Clock(self.driver, scene, order["seconds"])
        with ExitStack() as held:
            sides = [self.kernel("candidate", Path(order["candidate"]), order["key"], scene, held)]
            if order.get("incumbent"):
                sides.append(self.kernel("incumbent", Path(order["incumbent"]), order["key"], scene, held))
            sides += [self.baseline(name, order, scene) for name in order["baselines"]]
            clock.run(sides)
        return {side.name: {"samples_us": side.samples, "warm_us": side.warm_us} for side in sides}

    def fastest(self, order: dict[str, Any], scene: Scene) -> int:
        """Which of several ways to launch takes the least time; those the device does not take are left out."""
        clock, found = Clock(self.driver, scene, 0.0), dict[int, float]()
        for number, file in enumerate(order["tune"]):
            with ExitStack() as held:
                try:
                    side = self.kernel(file, Path(order["candidate"]), order["key"], scene, held, file)
                    times = [clock.once_us(side) for _ in range(WARM_UP + TUNED)]
                    found[number] = quantile(times[WARM_UP:], 0.25)
                except DeviceError as error:
                    if error.code in STICKY or (number + 1 == len(order["tune"]) and not found):
                        raise
        return min(found, key=lambda number: found[number])

    def kernel(self, name: str, workdir: Path, key: str, scene: Scene, held: ExitStack, file: str = FILE) -> Side:
        program: Program = read(workdir / file)[key]
        refuse_impossible(program)
        own = held.enter_context(closing(Own(self.driver, scene)))
        loaded = held.enter_context(closing(Loaded(self.driver, images(workdir))))
        bound = held.enter_context(closing(Bound(self.driver, loaded, program, own.places)))

        def prepare() -> None:
            own.fill()
            bound.poison()

        return Side(name, bound.start, prepare, own.collect)

    def baseline(self, name: str, order: dict[str, Any], scene: Scene) -> Side:
        import torch

        if name == "eager":
            return Side(name, scene.eager, nothing, nothing)
        module = self.compiled.setdefault(order["source"], torch.compile(scene.module))

        def run() -> object:
            with torch.no_grad():
                return module(*scene.args)

        run()
        return Side(name, run, nothing, nothing)


def size(tensor: Any) -> int:
    """Bytes."""
    return int(tensor.numel() * tensor.element_size())


def nothing() -> None:
    """PyTorch allocates its own outputs."""


def main() -> None:
    """Serves until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes elsewhere
    number = int(sys.argv[2])
    try:
        server = Server(number)
    except Absent as error:
        answers.write(json.dumps({"infra": str(error)}) + "\n")
        return
    answers.write(json.dumps({"ready": server.driver.name}) + "\n")
    for line in sys.stdin:
        is_over = False
        try:
            found = server.answer(json.loads(line))
        except CandidateError as error:
            found = {"refused": [error.reason, error.detail]}
        except DeviceError as error:
            blame = told(error)
            found = {"refused": [blame.reason, blame.detail]} if isinstance(blame, CandidateError) else {"infra": str(blame)}
            is_over = error.code in STICKY
        except UserError as error:
            found = {"user": str(error)}
        except (InfraError, RuntimeError) as error:  # torch raises these for whatever went wrong on the device
            found = {"infra": f"{type(error).__name__}: {str(error).splitlines()[0][:400]}"}
            is_over = isinstance(error, RuntimeError)
        answers.write(json.dumps(found) + "\n")
        if is_over:
            return


if __name__ == "__main__":
    main()
