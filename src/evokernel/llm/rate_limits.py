"""Token buckets for the rate limits of a service, on a clock that tests can replace."""

from __future__ import annotations

import threading
import time
from typing import Protocol

BURST_S = 6.0


class Clock(Protocol):
    """A source of time that can also wait."""

    def now(self) -> float: ...

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait; return True at once if `stop` is set."""


class SystemClock:
    """The monotonic clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        return stop.wait(max(0.0, seconds))


class TokenBucket:
    """Limits all threads together to `per_minute` units, with bursts of BURST_S seconds. 0 means no limit."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self.rate, self.clock = per_minute / 60, clock
        self.capacity = max(1.0, self.rate * BURST_S)
        self.level, self.updated_at = self.capacity, clock.now()
        self.lock = threading.Lock()

    def reserve(self, units: float) -> float:
        """Reserve units, on credit if needed, and return the seconds to wait before using them; callers are served in order."""
        if not self.rate:
            return 0.0
        with self.lock:
            now = self.clock.now()
            self.level = min(self.capacity, self.level + (now - self.updated_at) * self.rate) - units
            self.updated_at = now
            return max(0.0, -self.level / self.rate)

    def correct(self, units: float) -> None:
        """Correct an earlier reservation by the difference between actual and estimated units."""
        with self.lock:
            self.level -= units
