"""Times implementations of one operator in turn on equal tensors, in the timing server's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.statistics import median_interval, quantile

if TYPE_CHECKING:
    from evokernel.backends.gpu.device_inputs import DeviceInputs
    from evokernel.backends.gpu.driver import Driver

FLUSHED, LEAST_FLUSH = 2, 128 << 20
"""Multiple of the L2 cache size that is written between two timed calls."""
WARM_UP, WARM_S, MOST_WARM = 3, 0.002, 1000
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
