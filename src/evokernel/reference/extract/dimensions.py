"""Which sizes of a call belong together: found by changing them, one alone or several at once, and calling again without values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.extract.calls import Call

FACTOR = 3
MOST = 7
"""Among more equal sizes than this, only all together are tried."""
LITERAL = 16
"""Sizes of a window up to this, a parameter's third dimension and those after it, stay as they are."""
SPATIAL = re.compile("conv|pool|batch_norm|instance_norm|group_norm|interpolate|pixel|upsample|pad$|grid")
GRID = {
    3: ("BATCH", "CHANNELS", "WIDTH"),
    4: ("BATCH", "CHANNELS", "HEIGHT", "WIDTH"),
    5: ("BATCH", "CHANNELS", "DEPTH", "HEIGHT", "WIDTH"),
}
MATRIX = {1: ("SIZE",), 2: ("ROWS", "COLS"), 3: ("BATCH", "ROWS", "COLS"), 4: ("BATCH", "HEADS", "ROWS", "COLS")}
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
FAILS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError, NotImplementedError)
"""What torch raises where sizes do not fit."""


class Slot(NamedTuple):
    """One number of a call: a dimension of a tensor, or an argument (`axis` -1)."""

    where: int
    """Among the tensors, or among the leaves of the arguments."""
    axis: int
    value: int


class Sizes(NamedTuple):
    """A call's numbers as text."""

    constants: dict[str, int]
    shapes: list[list[str]]
    """Every tensor's, dimension by dimension: a constant, a multiple of one, or a number."""
    arguments: dict[int, str]
    """Leaves of the arguments that go with a size."""


def sizes(call: Call, roles: Sequence[str], words: Sequence[str]) -> Sizes:
    """Constants for the sizes of a call; `words` are the tensors' names."""
    shapes = [[str(size) for size in tensor.shape] for tensor in call.tensors]
    arguments: dict[int, str] = {}
    constants: dict[str, int] = {}
    for group in groups(call):
        first = min(slot for slot in group if slot.axis >= 0)
        unit = min(slot.value for slot in group)
        if len(group) == 1 and roles[first.where] == "parameter" and first.axis > 1 and unit <= LITERAL:
            continue
        name = unique(constant_name(call, first, words), constants)
        constants[name] = unit
        for slot in group:
            text = name if slot.value == unit else f"{slot.value // unit} * {name}"
            if slot.axis >= 0:
                shapes[slot.where][slot.axis] = text
            else:
                arguments[slot.where] = text
    return Sizes(constants, shapes, arguments)


def groups(call: Call) -> list[list[Slot]]:
    """Sizes that can only change together, in the order of the tensors; those that cannot change at all are left out."""
    dimensions = [
        Slot(index, axis, size) for index, tensor in enumerate(call.tensors) for axis, size in enumerate(tensor.shape) if size > 1
    ]
    numbers = [Slot(index, -1, leaf) for index, leaf in enumerate(call.leaves) if type(leaf) is int and leaf > 1]
    if call.name.rpartition(".")[2] in RECURRENT:
        return recurrent(call, dimensions)
    shape = outline(call, ())
    if shape is None:
        return alike(dimensions)
    found = [[slot] for slot in dimensions if outline(call, [slot]) == shape]
    stuck = sorted((slot for slot in dimensions if [slot] not in found), key=lambda slot: (slot.value, slot))
    while stuck:
        group = together(call, shape, stuck[0], stuck[1:] + numbers)
        found += [group] if group else []
        gone = group or [stuck[0]]
        stuck, numbers = ([slot for slot in rest if slot not in gone] for rest in (stuck, numbers))
    return sorted(adopted(call, found), key=lambda group: min(slot for slot in group if slot.axis >= 0))


def adopted(call: Call, found: list[list[Slot]]) -> list[list[Slot]]:
    """What seems to depend on nothing, because torch does not look at it unless it has values, goes with a size of the tensor before it:
    a convolution's bias with its weight, a transposed convolution's weight with the channels."""
    for group in [group for group in found if len(group) == 1]:
        (slot,) = group
        is_turned = "conv_transpose" in call.name and slot.where == 1 and slot.axis == 0
        if slot.where and (call.tensors[slot.where].ndim == 1 or is_turned):
            before = [other for other in found if any(one.where == slot.where - 1 and one.value == slot.value for one in other)]
            if before:
                found = [other + group if other is before[0] else other for other in found if other is not group]
    return found


def recurrent(call: Call, dimensions: Sequence[Slot]) -> list[list[Slot]]:
    """The sizes of an LSTM, a GRU or a plain recurrence, which must not be tried: torch believes what it is told about its weights."""
    *_, is_bidirectional, is_batch_first = (leaf for leaf in call.leaves if isinstance(leaf, bool))
    states = [index for index, tensor in enumerate(call.tensors) if index and tensor.ndim == 3]
    hidden = call.tensors[states[0]].shape[2]
    has_biases = any(tensor.ndim == 1 for tensor in call.tensors)
    first, each = 1 + len(states), 4 if has_biases else 2
    inputs = {first + direction * each for direction in range(1 + is_bidirectional)}
    batch = 0 if is_batch_first else 1
    found: dict[str, list[Slot]] = {"steps": [], "batch": [], "inputs": [], "hidden": []}
    for slot in dimensions:
        if slot.where == 0:
            found["inputs" if slot.axis == 2 else "batch" if slot.axis == batch else "steps"].append(slot)
        elif slot.where in states:
            found["batch" if slot.axis == 1 else "hidden"].extend([slot] if slot.axis else [])
        elif slot.where in inputs and slot.axis == 1:
            found["inputs"].append(slot)
        elif slot.value % hidden == 0:
            found["hidden"].append(slot)
    return sorted(group for group in found.values() if group)


def together(call: Call, shape: tuple[object, ...], slot: Slot, others: Sequence[Slot]) -> list[Slot]:
    """The fewest sizes that can change along with one: equal ones, or multiples."""
    equal = [other for other in others if other.value == slot.value]
    multiples = [other for other in others if other.value % slot.value == 0]
    counts: Iterable[int] = range(1, len(equal) + 1) if len(equal) <= MOST else [len(equal)]
    tried = [chosen for count in counts for chosen in combinations(equal, count)]
    tensors_only = tuple(other for other in multiples if other.axis >= 0)
    for chosen in (*tried, tensors_only, tuple(multiples)):
        if outline(call, group := [slot, *chosen]) == shape:
            return group
    return []


def alike(dimensions: Sequence[Slot]) -> list[list[Slot]]:
    """Where nothing can be tried: equal sizes together."""
    values = sorted({slot.value for slot in dimensions})
    return [[slot for slot in dimensions if slot.value == value] for value in values]


def outline(call: Call, changed: Iterable[Slot]) -> tuple[object, ...] | None:
    """Ranks and types of what comes out with some sizes multiplied; None where they do not fit."""
    shapes = [list(tensor.shape) for tensor in call.tensors]
    leaves = list(call.leaves)
    for slot in changed:
        if slot.axis >= 0:
            shapes[slot.where][slot.axis] = FACTOR * slot.value
        else:
            leaves[slot.where] = FACTOR * slot.value
    tensors = [torch.empty(shape, dtype=tensor.dtype, device="meta") for shape, tensor in zip(shapes, call.tensors)]
    try:
        with torch.no_grad():
            result = call.again(tensors, leaves)
    except FAILS:
        return None
    return tuple((leaf.ndim, leaf.dtype) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))


def constant_name(call: Call, slot: Slot, words: Sequence[str]) -> str:
    """What a size is called: `ROWS`, or `WEIGHT_ROWS` where it is not the first tensor's."""
    rank, bare = call.tensors[slot.where].ndim, call.name.rpartition(".")[2]
    if bare in RECURRENT:
        is_batch_first = [leaf for leaf in call.leaves if isinstance(leaf, bool)][-1]
        return "HIDDEN" if slot.where else "INPUTS" if slot.axis == 2 else "BATCH" if is_batch_first == (slot.axis == 0) else "STEPS"
    known = {**MATRIX, **GRID} if SPATIAL.search(call.name) and slot.where == 0 else MATRIX
    axis = known[rank][slot.axis] if rank in known else f"AXIS{slot.axis}"
    if slot.where == 0:
        return axis
    if slot.axis == 0 and words[slot.where] == "weight":
        return "OUT_CHANNELS" if "conv" in bare else "ENTRIES" if "embedding" in bare else "OUT_COLS"
    if "conv_transpose" in bare and words[slot.where] == "weight":
        return "OUT_CHANNELS"
    return f"{words[slot.where].upper()}_{axis}"


def unique(name: str, taken: Iterable[str]) -> str:
    """The name, with a number where it is taken."""
    count, found = 1, name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found
