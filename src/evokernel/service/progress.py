"""Passes progress from worker threads on to requests that wait: events of running verifications, and a signal for every change."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import suppress
from typing import NamedTuple

from evokernel.core.records import GateResult

MAX_EVENTS = 100


class GateEvent(NamedTuple):
    """A gate that started (`result` is None) or ended."""

    gate: str
    result: GateResult | None


class Progress:
    """Events by verification, kept until it ends; afterwards the stored result tells the same. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: dict[str, list[GateEvent]] = defaultdict(list)
        self.watchers: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = defaultdict(set)

    def add_gate(self, id: str, gate: str, result: GateResult | None) -> None:
        """Note that a gate started or ended."""
        with self.lock:
            if len(self.events[id]) < MAX_EVENTS:
                self.events[id].append(GateEvent(gate, result))
        self.notify(id)

    def read_events(self, id: str) -> list[GateEvent]:
        """The events of a verification that has not ended."""
        with self.lock:
            return list(self.events.get(id, ()))

    def forget(self, id: str) -> None:
        """Drop the events of a verification that has ended, and wake those who wait for it."""
        with self.lock:
            self.events.pop(id, None)
        self.notify(id)

    def notify(self, id: str) -> None:
        """Wake everyone who waits for a verification."""
        with self.lock:
            watchers = list(self.watchers.get(id, ()))
        wake_watchers(watchers)

    def notify_all(self) -> None:
        """Wake everyone, because the server stops."""
        with self.lock:
            watchers = [one for group in self.watchers.values() for one in group]
        wake_watchers(watchers)

    def watch(self, id: str) -> Watch:
        """A signal for the next changes; use it in a `with` statement."""
        return Watch(self, id)


def wake_watchers(watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    """Set events that belong to the loops of other threads."""
    for loop, event in watchers:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)


class Watch:
    """Waits for changes of one verification. A change between two waits is not missed."""

    def __init__(self, progress: Progress, id: str) -> None:
        self.progress, self.id = progress, id
        self.event = asyncio.Event()
        self.entry = (asyncio.get_running_loop(), self.event)

    def __enter__(self) -> Watch:
        with self.progress.lock:
            self.progress.watchers[self.id].add(self.entry)
        return self

    def __exit__(self, *_: object) -> None:
        with self.progress.lock:
            group = self.progress.watchers[self.id]
            group.discard(self.entry)
            if not group:
                del self.progress.watchers[self.id]

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the next change; False after the time-out."""
        try:
            await asyncio.wait_for(self.event.wait(), timeout_s)
        except TimeoutError:
            return False
        self.event.clear()
        return True
