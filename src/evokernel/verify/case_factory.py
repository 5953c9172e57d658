"""Makes the cases of one task: inputs, and what the reference makes of them in its own precision and in float64.

A judge sees many candidates for the same few tasks, so that what was found out about a task is kept for a while. Cases are drawn for every
candidate, but for the unusual kinds at the largest size, whose answers take longest: they serve several. These were drawn in secret as
well, and a candidate can pass nothing on to the next.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections import OrderedDict
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array
from evokernel.core.records import Task
from evokernel.verify.compare import FLOATS, Expected
from evokernel.verify.input_distributions import ATTEMPTS, TIES, Attempt, nudge, redraw
from evokernel.verify.odd_sizes import odd_size
from evokernel.verify.shared_buffers import blank
from evokernel.verify.tolerance import Tolerance, Unsuited

if TYPE_CHECKING:
    from evokernel.reference.module import Reference, Sample

LONGEST_S, MOST_USES = 600.0, 64
MEMORY_SHARE, MOST_BYTES, MOST_KEPT = 1 / 8, 1 << 30, 256
"""Of the machine's memory, for the answers that all its judges keep, one for each core; of answers in one judge; of tasks: what is known of
one besides its answers is little, and takes longer to find out."""
MADE: OrderedDict[str, CaseFactory] = OrderedDict()


class Sized(NamedTuple):
    """A task at a size."""

    reference: Reference
    outputs: tuple[Array, ...]
    """Without values."""


class Answer:
    """Inputs, and what must come out: worked out when first asked for, then kept."""

    def __init__(self, maker: CaseFactory, size: str, kind: str, sample: Sample) -> None:
        self.maker, self.size, self.kind, self.sample = maker, size, kind, sample
        self.inputs = sample.arrays()
        self.scalars = tuple((number.name, number.kind, number.value) for number in sample.scalars)
        self.outputs = maker.sized(size).outputs
        self.found: tuple[Expected, ...] | None = None

    @property
    def expected(self) -> tuple[Expected, ...]:
        if self.found is None:
            self.found = self.maker.yardstick.expected(self.maker.sized(self.size).reference, self.size, self.kind, self.sample)
            self.maker.check(self.size, self.inputs, [one.array for one in self.found])
        return self.found

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return sum(array.data.nbytes for array in self.inputs) + 6 * sum(array.data.size * array.data.itemsize for array in self.outputs)


class CaseFactory:
    """What is known of one task under one protocol."""

    def __init__(self, task: Task, protocol: str, seed: int) -> None:
        self.task, self.protocol, self.seed = task, protocol, seed
        self.yardstick = Tolerance(task, protocol)
        self.at: dict[str, Sized] = {}
        self.attempts: dict[str, Attempt | None] = {"own": ATTEMPTS[0], "near": ATTEMPTS[0]}
        self.answers: OrderedDict[tuple[str, int, str], Answer | None] = OrderedDict()
        self.overrides = dict(task.sizes)
        self.uses, self.since = 0, time.monotonic()

    def seed_for(self, *words: object) -> int:
        """A seed of this maker's own."""
        text = "/".join(map(str, (self.seed, self.task.id, *words)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def has(self, size: str) -> bool:
        """Whether a size is to be had; the odd one is looked for when first asked about."""
        if size == "odd" and "odd" not in self.overrides:
            found = odd_size(self.task, Random(self.seed_for("odd"))) if self.protocol == "strict" else None
            self.overrides["odd"] = found or {}
        return size in self.overrides and (size != "odd" or bool(self.overrides["odd"]))

    def sized(self, size: str) -> Sized:
        """The task's module at a size; what it gives is known for the signature's own size, and found out at others."""
        from evokernel.reference.module import Reference

        if size not in self.at:
            if not self.has(size):
                raise UserError(f"task {self.task.id} has no size '{size}': describe the task again")
            reference = Reference(self.task.source, self.task.id, self.overrides[size])
            self.at[size] = Sized(reference, self.blanks(size, reference))
        return self.at[size]

    def blanks(self, size: str, reference: Reference) -> tuple[Array, ...]:
        """The outputs at a size, without values."""
        from evokernel.reference.arrays import to_array

        if not self.overrides[size]:
            return tuple(blank(tensor) for tensor in self.task.signature.outputs)
        sample = reference.sample(self.seed_for("shapes", size))
        outputs = [to_array(name, tensor) for name, tensor in reference.run(sample)]
        self.check(size, sample.arrays(), outputs)
        return tuple(Array(a.name, a.dtype, np.broadcast_to(np.zeros((), a.data.dtype), a.data.shape)) for a in outputs)

    def make(self, size: str, kind: str, seed: int) -> Answer:
        """A case from a seed. Raises Unsuited where the operator is not made for such inputs."""
        if (attempt := self.attempt(kind)) is None:
            raise Unsuited(kind)
        sample = self.sized(size).reference.sample(seed)
        if kind == "near":
            if not nudge(sample, seed):
                raise Unsuited(kind)
        elif kind != "own" and not redraw(sample, kind, attempt, seed):
            raise Unsuited(kind)
        return Answer(self, size, kind, sample)

    def attempt(self, kind: str) -> Attempt | None:
        """How far inputs of a kind may go for the reference to do with them, found by trying; None when it never does."""
        if kind not in self.attempts:
            whole = any(output.dtype not in FLOATS for output in self.task.signature.outputs)
            defined = kind != "nonfinite" or "nan-and-inf" in self.task.tags
            has_ties = whole and kind == "shifted"  # where they are far from zero
            possible = [attempt for attempt in ATTEMPTS if defined and not (whole and kind in TIES) and not (has_ties and attempt.far)]
            self.attempts[kind] = next((attempt for attempt in possible if self.suits(kind, attempt)), None)
        return self.attempts[kind]

    def suits(self, kind: str, attempt: Attempt) -> bool:
        """Whether the reference can do with such inputs, on some that no candidate is given; of either sign, which follows the seed."""
        reference = self.sized("small").reference
        for seed in (self.seed_for("suits", kind) ^ bit for bit in (0, 1)):
            sample = reference.sample(seed)
            if not redraw(sample, kind, attempt, seed):
                return False
            try:
                self.yardstick.expected(reference, "small", kind, sample)
            except Unsuited:
                return False
        return True

    def case(self, size: str, index: int, kind: str, seed: int) -> Answer | None:
        """The index-th case of a kind from a candidate's seed; None where the operator is not made for such. `near` is almost the `own` one
        of that index. The last bit of a seed is a sign, and two in a row have both."""
        is_shared = size == "bench" and kind not in ("own", "near")
        key = (size, index, kind)
        if is_shared and key in self.answers:
            return self.answers[key]
        start = self.seed if is_shared else seed
        drawn = self.seed_for(start, size, index, "own" if kind == "near" else kind)
        try:
            found = self.make(size, kind, drawn - drawn % 2 + (start + index) % 2)
        except Unsuited:
            found = None
        if is_shared:
            self.answers[key] = found
        return found

    def again(self, answer: Answer) -> tuple[Expected, ...]:
        """What must come out now that the inputs were changed by whoever drew them."""
        return self.yardstick.again(self.sized(answer.size).reference, answer.size, answer.sample)

    @property
    def nbytes(self) -> int:
        return sum(answer.nbytes for answer in self.answers.values() if answer)

    def check(self, size: str, inputs: tuple[Array, ...], outputs: list[Array]) -> None:
        """The reference must do what the task's signature says."""
        signature = self.task.signature
        said = [(t.name, t.dtype, len(t.shape)) for t in (*signature.inputs, *signature.params, *signature.outputs)]
        found = [(a.name, a.dtype, a.data.ndim) for a in (*inputs, *outputs)]
        if said != found:
            odd = next((f"{a} instead of {b}" for a, b in zip(found, said) if a != b), f"{len(found)} tensors instead of {len(said)}")
            raise UserError(f"task {self.task.id}: at size '{size}' the reference has {odd}; its signature must not depend on the size")


def made(task: Task, protocol: str, is_secret: bool) -> CaseFactory:
    """The maker for a task, kept for a while; with a known seed where runs must be equal."""
    key = hashlib.sha256(f"{protocol}\0{is_secret}\0{task.model_dump_json()}".encode()).hexdigest()
    found = MADE.pop(key, None)
    if found is None or (is_secret and (found.uses >= MOST_USES or time.monotonic() - found.since > LONGEST_S)):
        known, found = found, CaseFactory(task, protocol, secrets.randbits(48) if is_secret else 0)
        if known:  # what the operator is made for is no secret, and takes longest to find out
            found.attempts = known.attempts
    found.uses += 1
    MADE[key] = found
    while len(MADE) > MOST_KEPT:
        MADE.popitem(last=False)
    free = room() - sum(maker.nbytes for maker in MADE.values())
    for maker in list(MADE.values())[:-1]:  # those asked for longest ago first
        if free >= 0:
            break
        free += maker.nbytes
        maker.answers.clear()
    return found


@cache
def room() -> int:
    """Bytes for the answers of all tasks."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MOST_BYTES, int(memory * MEMORY_SHARE / (os.cpu_count() or 1)))
