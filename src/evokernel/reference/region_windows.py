"""Rules of operators with sliding windows: convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from evokernel.reference.float64_reference import HALVES
from evokernel.reference.region_boxes import Box, Range, intersect_ranges
from evokernel.reference.region_graph import Demand, Node, Plan
from evokernel.reference.region_rules import Context, add_rule

CONVOLUTIONS: dict[int, Any] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED: dict[int, Any] = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
MAX_POOLS: dict[int, Any] = {2: functional.max_pool2d, 3: functional.max_pool3d}
AVERAGE_POOLS: dict[int, Any] = {2: functional.avg_pool2d, 3: functional.avg_pool3d}


def repeat_setting(value: Any, rank: int) -> list[int]:
    """Return a setting per axis."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * rank if len(numbers) == 1 else numbers


def find_windows(outputs: Range, size: int, stride: int, padding: int, extent: int) -> tuple[Range, Range]:
    """Return the range of the input that windows touch, and how many elements of padding they touch before and after it."""
    start, stop = outputs[0] * stride - padding, (outputs[1] - 1) * stride - padding + extent
    low, high = intersect_ranges((start, stop), (0, size))
    if high == low:
        return (0, 0), (stop - start, 0)
    return (low, high), (low - start, stop - high)


def flatten_widths(margins: Sequence[Range]) -> list[int]:
    """Return widths of padding in torch's order: the last axis first."""
    return [width for margin in reversed(margins) for width in margin]


def choose_groups(channels: Range, per_group: int) -> Range:
    """Return the range of groups that output channels belong to."""
    return channels[0] // per_group, (channels[1] - 1) // per_group + 1


@add_rule("convolution")
def plan_convolution(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Windows of the input, and the filters of the channels."""
    named, shape = node.named, context.graph.shape_of(node.named["input"])
    weight_shape = context.graph.shape_of(named["weight"])
    rank = len(weight_shape) - 2
    if len(shape) != rank + 2 or rank not in CONVOLUTIONS:
        return None
    stride, padding, dilation = (repeat_setting(named[key], rank) for key in ("stride", "padding", "dilation"))
    extents = [(size - 1) * step + 1 for size, step in zip(weight_shape[2:], dilation)]
    groups, is_transposed = named["groups"], named["transposed"]
    inputs_per_group, outputs_per_group = shape[1] // groups, node.shapes[0][1] // groups
    first, last = choose_groups(box[1], outputs_per_group)
    count = last - first
    channels = box[1] if count == 1 else (first * outputs_per_group, last * outputs_per_group)
    inputs = (first * inputs_per_group, last * inputs_per_group)
    kernel = tuple((0, size) for size in weight_shape[2:])
    axes = [
        (find_sources if is_transposed else find_windows)(outputs, size, *numbers)
        for outputs, size, *numbers in zip(box[2:], shape[2:], stride, padding, extents)
    ]
    filters = (
        (inputs, shift_range(channels, -first * outputs_per_group, count, outputs_per_group))
        if is_transposed
        else (channels, (0, inputs_per_group))
    )
    demands = [
        Demand(named["input"], (box[0], inputs, *(one for one, _ in axes))),
        Demand(named["weight"], (*filters, *kernel)),
    ]
    if named["bias"] is not None:
        demands.append(Demand(named["bias"], (box[1],)))
    margins = [margin for _, margin in axes]
    chosen = slice(box[1][0] - channels[0], box[1][1] - channels[0])

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        dtype = torch.float32 if tensors[0].dtype in HALVES else tensors[0].dtype
        image, weight = (one.to(dtype) for one in tensors[:2])
        if is_transposed:
            values = place_transposed(image, weight, box, stride, dilation, count, margins)
        else:
            padded = functional.pad(image, flatten_widths(margins))
            values = CONVOLUTIONS[rank](padded, weight, None, stride, 0, dilation, count)
        values = values[:, chosen]
        if len(tensors) > 2:
            values = values + tensors[2].to(dtype).reshape(-1, *[1] * rank)
        return values.to(node.result_dtype(0, is_wide))

    return Plan(tuple(demands), apply)


def shift_range(channels: Range, offset: int, count: int, per_group: int) -> Range:
    """Return the filters of one group that channels need; all of them for several groups."""
    return (channels[0] + offset, channels[1] + offset) if count == 1 else (0, per_group)


def find_sources(outputs: Range, size: int, stride: int, padding: int, extent: int) -> tuple[Range, Range]:
    """Return the inputs of a transposed convolution that reach a range of outputs, and where that range begins after them.

    Input `i` reaches the outputs from `i * stride - padding`, `extent` of them.
    """
    low = -((extent - 1 - outputs[0] - padding) // stride)
    low, high = intersect_ranges((low, (outputs[1] - 1 + padding) // stride + 1), (0, size))
    if high == low:
        return (0, 0), (0, 0)
    return (low, high), (outputs[0] + padding - low * stride, 0)


def place_transposed(
    image: torch.Tensor, weight: torch.Tensor, box: Box, stride: list[int], dilation: list[int], groups: int, offsets: Sequence[Range]
) -> torch.Tensor:
    """Compute a transposed convolution of a part of the input, and cut or fill it to the wanted outputs."""
    rank = len(stride)
    lengths = [stop - start for start, stop in box[2:]]
    if 0 in image.shape:
        return image.new_zeros(image.shape[0], weight.shape[1] * groups, *lengths)
    values = TRANSPOSED[rank](image, weight, None, stride, 0, 0, groups, dilation)
    margins = [(-start, length + start - size) for (start, _), length, size in zip(offsets, lengths, values.shape[2:])]
    return functional.pad(values, flatten_widths(margins))


@add_rule("max_pool2d_with_indices max_pool3d_with_indices")
def plan_max_pool(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Windows of the input, filled with the lowest number."""
    named, shape = node.named, context.graph.shape_of(node.refs[0])
    rank = 2 if "2d" in node.base_name else 3
    if result != 0:
        return None
    size, padding, dilation = (repeat_setting(named[key], rank) for key in ("kernel_size", "padding", "dilation"))
    stride = repeat_setting(named["stride"] or size, rank)
    extents = [(one - 1) * step + 1 for one, step in zip(size, dilation)]
    lead = len(shape) - rank
    axes = [find_windows(*numbers) for numbers in zip(box[lead:], shape[lead:], stride, padding, extents)]
    widths = flatten_widths([margin for _, margin in axes])

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        lowest = -math.inf if tensors[0].is_floating_point() else torch.iinfo(tensors[0].dtype).min
        return MAX_POOLS[rank](functional.pad(tensors[0], widths, value=lowest), size, stride, 0, dilation)

    return Plan((Demand(node.refs[0], (*box[:lead], *(one for one, _ in axes))),), apply)


@add_rule("avg_pool2d avg_pool3d")
def plan_average_pool(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Windows of the input, filled with zeros; the divisor depends on the position."""
    named, shape = node.named, context.graph.shape_of(node.refs[0])
    rank = 2 if "2d" in node.base_name else 3
    size, padding = (repeat_setting(named[key], rank) for key in ("kernel_size", "padding"))
    stride = repeat_setting(named["stride"] or size, rank)
    lead = len(shape) - rank
    axes = [find_windows(*numbers) for numbers in zip(box[lead:], shape[lead:], stride, padding, size)]
    widths = flatten_widths([margin for _, margin in axes])
    divisor = torch.ones([1] * rank, dtype=torch.float64) * (named["divisor_override"] or 1)
    if not named["divisor_override"]:
        for axis, (outputs, extent, step, border, window) in enumerate(zip(box[lead:], shape[lead:], stride, padding, size)):
            starts = torch.arange(*outputs) * step - border
            stops = torch.clamp(starts + window, max=extent + border)
            if not named["count_include_pad"]:
                starts, stops = starts.clamp(min=0), stops.clamp(max=extent)
            divisor = divisor * (stops - starts).reshape([-1 if i == axis else 1 for i in range(rank)])

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        dtype = torch.float32 if tensors[0].dtype in HALVES else tensors[0].dtype
        sums = AVERAGE_POOLS[rank](functional.pad(tensors[0].to(dtype), widths), size, stride, divisor_override=1)
        return (sums / divisor.to(dtype)).to(node.result_dtype(0, is_wide))

    return Plan((Demand(node.refs[0], (*box[:lead], *(one for one, _ in axes))),), apply)
