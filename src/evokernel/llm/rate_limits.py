"""Token buckets for a service's rate limits, on a clock that tests can replace."""

from __future__ import annotations

import threading
import time
from typing import Protocol

BURST_S = 6.0


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> float: ...

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Waits; True, at once, when `stop` is set."""


class SystemClock:
    """The machine's own."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        return stop.wait(max(0.0, seconds))


class Bucket:
    """Lets `per_minute` units through, with bursts of a few seconds' worth; shared by all threads. 0 lets everything through."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self.rate, self.clock = per_minute / 60, clock
        self.capacity = max(1.0, self.rate * BURST_S)
        self.level, self.at = self.capacity, clock.now()
        self.lock = threading.Lock()

    def take(self, units: float) -> float:
        """Takes units, on credit if need be, and says how many seconds to wait before using them; so nobody overtakes."""
        if not self.rate:
            return 0.0
        with self.lock:
            now = self.clock.now()
            self.level = min(self.capacity, self.level + (now - self.at) * self.rate) - units
            self.at = now
            return max(0.0, -self.level / self.rate)

    def settle(self, units: float) -> None:
        """Corrects an estimate afterwards: takes more, or gives back."""
        with self.lock:
            self.level -= units
