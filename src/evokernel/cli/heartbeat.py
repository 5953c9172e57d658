"""A line on the screen whenever a command has printed nothing for some seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

QUIET_S = 4.0
"""A command that printed nothing for this long prints a line of progress."""
GROWTH, TERMINAL_LIMIT, LOG_LIMIT = 1.5, 2.5, 7.5
"""Each further line waits longer by this factor, up to a multiple of the first wait: a log of a long wait stays short."""


def write_to_stderr(text: str) -> None:
    """Print one line of progress on stderr, so that it never mixes with results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Heartbeat:
    """While it is open, a thread writes `describe()` each time nothing else was written for `quiet_s` seconds, then more and more rarely
    until something else is written. An empty text is skipped."""

    def __init__(self, describe: Callable[[], str], write: Callable[[str], None] = write_to_stderr, quiet_s: float | None = None) -> None:
        self.describe, self.write, self.quiet_s = describe, write, QUIET_S if quiet_s is None else quiet_s
        self.last_line_at = time.monotonic()
        self.pause_s = self.quiet_s
        self.longest_s = self.quiet_s * (TERMINAL_LIMIT if sys.stderr.isatty() else LOG_LIMIT)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="heartbeat")

    def __enter__(self) -> Heartbeat:
        self.touch()
        self.thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closed.set()
        self.thread.join()

    def touch(self) -> None:
        """Note that the command has just written a line."""
        self.last_line_at, self.pause_s = time.monotonic(), self.quiet_s

    def beat(self) -> None:
        """Write lines until the heartbeat is closed."""
        while not self.closed.wait(max(0.02, self.last_line_at + self.pause_s - time.monotonic())):
            if time.monotonic() - self.last_line_at >= self.pause_s:
                if text := self.describe():
                    self.write(text)
                self.last_line_at, self.pause_s = time.monotonic(), min(GROWTH * self.pause_s, self.longest_s)


def announce_wait(activity: str) -> Heartbeat:
    """A heartbeat for one activity: `loading tasks, 8 s`."""
    started_at = time.monotonic()
    return Heartbeat(lambda: f"{activity}, {time.monotonic() - started_at:.0f} s")
