"""Waiting that does not depend on how fast the machine is."""

import time
from collections.abc import Callable, Iterator

HANG_S = 240
"""Only something that hangs takes longer, even on a busy machine."""


def wait_until(condition: Callable[[], object], message: str = "it did not happen") -> None:
    """Wait until a condition holds; fail if it never does."""
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.02)


def growing_limits(is_long_enough: Callable[[], object]) -> Iterator[float]:
    """Yield longer and longer limits for something endless, until the last was long enough for what the test needs to see of it."""
    for limit_s in (1.0, 4.0, 16.0, 64.0, HANG_S):
        yield limit_s
        if is_long_enough():
            return
