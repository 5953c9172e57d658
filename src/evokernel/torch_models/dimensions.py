"""Finds which sizes of a torch call must change together, by calling it on the meta device with scaled sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from evokernel.torch_models.calls import TorchCall

PROBE_FACTOR = 3
MAX_COMBINED = 7
"""Among more equal sizes than this, only all of them together are tested."""
MAX_WINDOW = 16
"""Window sizes up to this value (dimensions of a parameter from the third on) stay literal numbers."""
SPATIAL = re.compile("conv|pool|batch_norm|instance_norm|group_norm|interpolate|pixel|upsample|pad$|grid")
GRID = {
    3: ("BATCH", "CHANNELS", "WIDTH"),
    4: ("BATCH", "CHANNELS", "HEIGHT", "WIDTH"),
    5: ("BATCH", "CHANNELS", "DEPTH", "HEIGHT", "WIDTH"),
}
MATRIX = {1: ("SIZE",), 2: ("ROWS", "COLS"), 3: ("BATCH", "ROWS", "COLS"), 4: ("BATCH", "HEADS", "ROWS", "COLS")}
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
SIZE_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError, NotImplementedError)
"""Exceptions that torch raises if sizes do not match."""


class SizeSlot(NamedTuple):
    """One number of a call: a dimension of a tensor, or an argument (`axis` -1)."""

    position: int
    """Index of the tensor, or of the argument's leaf."""
    axis: int
    value: int


class CallSizes(NamedTuple):
    """The sizes of a call as source text."""

    constants: dict[str, int]
    shapes: list[list[str]]
    """Shape of each tensor by dimension: a constant, a multiple of a constant, or a number."""
    arguments: dict[int, str]
    """Arguments that depend on a size, by index of the leaf."""


def name_sizes(call: TorchCall, roles: Sequence[str], tensor_names: Sequence[str]) -> CallSizes:
    """Introduce named constants for the sizes of a call."""
    shapes = [[str(size) for size in tensor.shape] for tensor in call.tensors]
    arguments: dict[int, str] = {}
    constants: dict[str, int] = {}
    for group in group_sizes(call):
        first = min(slot for slot in group if slot.axis >= 0)
        unit = min(slot.value for slot in group)
        if len(group) == 1 and roles[first.position] == "parameter" and first.axis > 1 and unit <= MAX_WINDOW:
            continue
        name = make_unique(constant_name(call, first, tensor_names), constants)
        constants[name] = unit
        for slot in group:
            text = name if slot.value == unit else f"{slot.value // unit} * {name}"
            if slot.axis >= 0:
                shapes[slot.position][slot.axis] = text
            else:
                arguments[slot.position] = text
    return CallSizes(constants, shapes, arguments)


def group_sizes(call: TorchCall) -> list[list[SizeSlot]]:
    """Return groups of sizes that must change together, in the order of the tensors; without sizes that cannot change."""
    dimensions = [
        SizeSlot(index, axis, size) for index, tensor in enumerate(call.tensors) for axis, size in enumerate(tensor.shape) if size > 1
    ]
    numbers = [SizeSlot(index, -1, leaf) for index, leaf in enumerate(call.leaves) if type(leaf) is int and leaf > 1]
    if call.name.rpartition(".")[2] in RECURRENT:
        return group_recurrent_sizes(call, dimensions)
    shape = output_layout(call, ())
    if shape is None:
        return group_equal_sizes(dimensions)
    independent = [[slot] for slot in dimensions if output_layout(call, [slot]) == shape]
    stuck = sorted((slot for slot in dimensions if [slot] not in independent), key=lambda slot: (slot.value, slot))
    while stuck:
        group = find_linked_sizes(call, shape, stuck[0], stuck[1:] + numbers)
        independent += [group] if group else []
        handled = group or [stuck[0]]
        stuck, numbers = ([slot for slot in rest if slot not in handled] for rest in (stuck, numbers))
    return sorted(attach_unchecked_sizes(call, independent), key=lambda group: min(slot for slot in group if slot.axis >= 0))


def attach_unchecked_sizes(call: TorchCall, groups: list[list[SizeSlot]]) -> list[list[SizeSlot]]:
    """Attach sizes that torch does not check on the meta device to an equal size of the preceding tensor: the bias of a convolution to its
    weight, the weight of a transposed convolution to the channels."""
    for group in [group for group in groups if len(group) == 1]:
        (slot,) = group
        is_turned = "conv_transpose" in call.name and slot.position == 1 and slot.axis == 0
        if slot.position and (call.tensors[slot.position].ndim == 1 or is_turned):
            before = [other for other in groups if any(one.position == slot.position - 1 and one.value == slot.value for one in other)]
            if before:
                groups = [other + group if other is before[0] else other for other in groups if other is not group]
    return groups


def group_recurrent_sizes(call: TorchCall, dimensions: Sequence[SizeSlot]) -> list[list[SizeSlot]]:
    """Group the sizes of an LSTM, GRU or plain RNN by their known meaning; torch does not check their weights, so they cannot be probed."""
    *_, is_bidirectional, is_batch_first = (leaf for leaf in call.leaves if isinstance(leaf, bool))
    states = [index for index, tensor in enumerate(call.tensors) if index and tensor.ndim == 3]
    hidden = call.tensors[states[0]].shape[2]
    has_biases = any(tensor.ndim == 1 for tensor in call.tensors)
    first, each = 1 + len(states), 4 if has_biases else 2
    inputs = {first + direction * each for direction in range(1 + is_bidirectional)}
    batch = 0 if is_batch_first else 1
    by_size: dict[str, list[SizeSlot]] = {"steps": [], "batch": [], "inputs": [], "hidden": []}
    for slot in dimensions:
        if slot.position == 0:
            by_size["inputs" if slot.axis == 2 else "batch" if slot.axis == batch else "steps"].append(slot)
        elif slot.position in states:
            by_size["batch" if slot.axis == 1 else "hidden"].extend([slot] if slot.axis else [])
        elif slot.position in inputs and slot.axis == 1:
            by_size["inputs"].append(slot)
        elif slot.value % hidden == 0:
            by_size["hidden"].append(slot)
    return sorted(group for group in by_size.values() if group)


def find_linked_sizes(call: TorchCall, shape: tuple[object, ...], slot: SizeSlot, others: Sequence[SizeSlot]) -> list[SizeSlot]:
    """Return the smallest group of equal sizes or multiples that can change together with this one; empty if there is none."""
    equal = [other for other in others if other.value == slot.value]
    multiples = [other for other in others if other.value % slot.value == 0]
    counts: Iterable[int] = range(1, len(equal) + 1) if len(equal) <= MAX_COMBINED else [len(equal)]
    subsets = [subset for count in counts for subset in combinations(equal, count)]
    tensors_only = tuple(other for other in multiples if other.axis >= 0)
    for subset in (*subsets, tensors_only, tuple(multiples)):
        if output_layout(call, group := [slot, *subset]) == shape:
            return group
    return []


def group_equal_sizes(dimensions: Sequence[SizeSlot]) -> list[list[SizeSlot]]:
    """Group equal sizes, if the call cannot be probed."""
    values = sorted({slot.value for slot in dimensions})
    return [[slot for slot in dimensions if slot.value == value] for value in values]


def output_layout(call: TorchCall, scaled_slots: Iterable[SizeSlot]) -> tuple[object, ...] | None:
    """Return ranks and dtypes of the results with some sizes multiplied; None if the sizes do not match."""
    shapes = [list(tensor.shape) for tensor in call.tensors]
    leaves = list(call.leaves)
    for slot in scaled_slots:
        if slot.axis >= 0:
            shapes[slot.position][slot.axis] = PROBE_FACTOR * slot.value
        else:
            leaves[slot.position] = PROBE_FACTOR * slot.value
    tensors = [torch.empty(shape, dtype=tensor.dtype, device="meta") for shape, tensor in zip(shapes, call.tensors)]
    try:
        with torch.no_grad():
            result = call.call_with(tensors, leaves)
    except SIZE_ERRORS:
        return None
    return tuple((leaf.ndim, leaf.dtype) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))


def constant_name(call: TorchCall, slot: SizeSlot, tensor_names: Sequence[str]) -> str:
    """Return the name of a size: `ROWS`, or `WEIGHT_ROWS` if it does not belong to the first tensor."""
    rank, bare = call.tensors[slot.position].ndim, call.name.rpartition(".")[2]
    if bare in RECURRENT:
        is_batch_first = [leaf for leaf in call.leaves if isinstance(leaf, bool)][-1]
        return "HIDDEN" if slot.position else "INPUTS" if slot.axis == 2 else "BATCH" if is_batch_first == (slot.axis == 0) else "STEPS"
    axis_names = {**MATRIX, **GRID} if SPATIAL.search(call.name) and slot.position == 0 else MATRIX
    axis = axis_names[rank][slot.axis] if rank in axis_names else f"AXIS{slot.axis}"
    if slot.position == 0:
        return axis
    if slot.axis == 0 and tensor_names[slot.position] == "weight":
        return "OUT_CHANNELS" if "conv" in bare else "ENTRIES" if "embedding" in bare else "OUT_COLS"
    if "conv_transpose" in bare and tensor_names[slot.position] == "weight":
        return "OUT_CHANNELS"
    return f"{tensor_names[slot.position].upper()}_{axis}"


def make_unique(name: str, used_names: Iterable[str]) -> str:
    """Return the name, with a number appended if it is already in use."""
    count, candidate = 1, name
    while candidate in used_names:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
