"""Gives requests to the slots of a decoder, on a thread of its own, and collects their tokens until they end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

from batched_decoder import BatchedDecoder

STEPS = 8
"""Tokens that are decoded between two looks at the queue: the GPU then waits for the processor only once in so many steps."""


@dataclass
class Answer:
    """The tokens of an answer, and why it ended: `stop` or `length`."""

    tokens: list[int]
    finish_reason: str
    prompt_tokens: int


@dataclass
class Request:
    """One answer that is asked for."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    seed: int
    answer: Future[Answer] = field(default_factory=Future)
    tokens: list[int] = field(default_factory=list)


class Scheduler:
    """Decodes requests as slots become free, in the order of their arrival."""

    def __init__(self, decoder: BatchedDecoder, end_tokens: Collection[int]) -> None:
        self.decoder, self.end_tokens = decoder, frozenset(end_tokens)
        self.waiting: deque[Request] = deque()
        self.active: dict[int, Request] = {}
        self.changed = threading.Condition()
        self.is_closed = False
        self.error: BaseException | None = None
        self.finished_requests = self.finished_tokens = 0
        self.prompt_tokens = self.steps = self.slot_steps = 0
        """Tokens of prompts, steps, and the sum over all steps of the slots in use."""
        self.busy_s = self.prompt_s = 0.0
        """Seconds with any request, and those of them that prompts took."""
        self.thread = threading.Thread(target=self.serve, daemon=True, name="decoder")
        self.thread.start()

    def submit(self, prompt: list[int], max_tokens: int, temperature: float, seed: int) -> Future[Answer]:
        """Queue a request. Raises ValueError if it does not fit into the context, and RuntimeError after the decoder has failed."""
        if len(prompt) + 1 >= self.decoder.context:
            raise ValueError(f"the prompt has {len(prompt)} tokens, and the context length is {self.decoder.context}")
        request = Request(prompt, min(max_tokens, self.decoder.context - len(prompt) - 1), temperature, seed)
        with self.changed:
            if self.error or self.is_closed:
                raise RuntimeError(f"the decoder has stopped: {self.error or 'closed'}")
            self.waiting.append(request)
            self.changed.notify()
        return request.answer

    def close(self) -> None:
        """Stop after the current steps; requests that are not finished fail."""
        with self.changed:
            self.is_closed = True
            self.changed.notify()
        self.thread.join()

    def serve(self) -> None:
        """Decode until `close`; an error of the decoder fails all requests, and later ones at once."""
        try:
            while self.wait_for_work():
                start_s = time.monotonic()
                self.start_waiting()
                self.prompt_s += time.monotonic() - start_s
                if self.active:
                    self.decode_active()
                self.busy_s += time.monotonic() - start_s
        except Exception as error:
            self.error = error
        finally:
            with self.changed:
                self.is_closed = True
                unfinished = [*self.active.values(), *self.waiting]
                self.waiting.clear()
            for request in unfinished:
                request.answer.set_exception(RuntimeError(f"the decoder has stopped: {self.error or 'closed'}"))

    def wait_for_work(self) -> bool:
        """Wait for a request; return whether to go on."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or self.waiting or self.active)
            return not self.is_closed

    def start_waiting(self) -> None:
        """Process the prompts of waiting requests, as far as slots are free."""
        for slot in (slot for slot in range(self.decoder.slots) if slot not in self.active):
            with self.changed:
                if not self.waiting:
                    return
                request = self.active[slot] = self.waiting.popleft()
            self.prompt_tokens += len(request.prompt)
            first = self.decoder.start(slot, request.prompt, request.seed, request.temperature)
            self.add_tokens(slot, [first])

    def decode_active(self) -> None:
        """Decode some tokens for all active slots."""
        longest = max(len(request.prompt) + len(request.tokens) for request in self.active.values())
        self.steps, self.slot_steps = self.steps + STEPS, self.slot_steps + STEPS * len(self.active)
        for slot, tokens in enumerate(self.decoder.decode(STEPS, longest, max(self.active) + 1).T.tolist()):
            if slot in self.active:
                self.add_tokens(slot, tokens)

    def add_tokens(self, slot: int, tokens: list[int]) -> None:
        """Append tokens to an answer, and finish it at an end token or at its limit."""
        request = self.active[slot]
        for token in tokens:
            is_end = token in self.end_tokens
            if not is_end:
                request.tokens.append(token)
            if is_end or len(request.tokens) >= request.max_tokens:
                del self.active[slot]
                self.finished_requests += 1
                self.finished_tokens += len(request.tokens)
                request.answer.set_result(Answer(request.tokens, "stop" if is_end else "length", len(request.prompt)))
                return
