"""Convolutions over one to three axes, also grouped and transposed, as matrix products of the weights with columns of the image.

On the cube, the vector cores of each block write the columns of one tile ahead of its cube. With steps of one along the lines and no
epilogue but a bias, the cube works alone: it copies the lines once for each column of a window, and turns the weights first.
A transposed convolution with strides has one product per phase of the strides down, whose rows are the channels and the phases across; the
vector cores put these next to each other.
On the vector unit, few channels are sums of shifted lines; for more of them, the columns of several images are in the workspace.
"""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.ascendc.local_memory import SHIFT_BYTES
from evokernel.generators.template_search.dialects.ascendc.matmul import PRODUCT_DECISIONS, describe_product
from evokernel.generators.template_search.dialects.ascendc.pool import AXES
from evokernel.generators.template_search.graph import Num, Shape, UnsupportedPattern, calculate
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums

CHANNEL_ROWS = {(True, True): "(o * M + r)", (True, False): "(o / groups)", (False, True): "(o % groups * M + r)", (False, False): "0"}
"""The row of an operand, by whether it changes with the image and with the channel."""
FEW_CHANNELS = 8
"""Output channels per group below which the vector unit computes the product."""
MOST_TERMS = 65535
"""Products per output that the cube's copies of weights can address: a row stride has 16 bits."""
MOST_COLUMNS = 7
"""Columns of a window up to which the cube alone is faster: it copies lines at odd addresses, which is slow, once for each column."""
LEAST_CHANNELS = 16
"""Channels per group from which it is: the cube alone multiplies 16 at once. Images whose size exceeds 16 bits need a copy per channel."""
NARROW = 128
"""Width of an image below which gathering shifted lines is faster than copying them: short copies cost mostly their start."""
COLUMN_BYTES = 2 << 30
"""Columns in the workspace if the vector unit computes the product: those of one image, or of as many images as fit."""
FEW_WEIGHTS = 4096
"""Weights per group that are in local memory if the vector unit adds up shifted lines."""


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a convolution by its window, its channels, and the product of the weights with the columns."""
    (x, w), main = pattern.tensors, pattern.main_nodes[0]
    rank, is_transposed, groups = len(x.shape) - 2, main.name == "transposed", pattern.numbers[-1]
    if x.dtype != "float32" or w.dtype != "float32" or rank > len(AXES):
        raise UnsupportedPattern(f"a convolution of {x.dtype} with {w.dtype}, or over {rank} axes")
    strides, paddings, dilations = (pattern.numbers[i * rank : (i + 1) * rank] for i in range(3))
    is_point = not is_transposed and all(is_number(n, 1) for n in (*w.shape[2:], *strides)) and all(is_number(n, 0) for n in paddings)
    weights, taps, points = calculate("floordiv", multiply_nums(w.shape), groups), multiply_nums(w.shape[2:]), multiply_nums(main.shape[2:])
    out_channels, in_channels = (calculate("floordiv", n, groups) for n in (main.shape[1], x.shape[1]))
    sizes = (
        StageArgument("batch", calculate("mul", x.shape[0], groups)),
        StageArgument("M", out_channels),
        StageArgument("N", points),
        StageArgument("K", calculate("mul", in_channels, taps)),
        StageArgument("groups", groups),
    )
    used = 0 if is_point else SHIFT_BYTES + 4 * FEW_WEIGHTS
    product = describe_product(pattern, CHANNEL_ROWS, (True, True), sizes, used, further_tiles=1 if is_transposed else 0)
    is_narrow = max(out_channels.values) < FEW_CHANNELS or max(weights.values) > max(out_channels.values) * MOST_TERMS
    is_direct = is_narrow and not is_point and not is_transposed and max(weights.values) <= FEW_WEIGHTS
    is_phased = is_transposed and not all(is_number(n, 1) for n in strides)
    gathers = not (is_transposed or is_number(strides[-1], 1)) or max(x.shape[-1].values) < NARROW
    tensors = (StageArgument("right" if is_point else "x", x), StageArgument("left" if not is_transposed else "weights", w))
    window = (
        StageArgument("images", x.shape[0]),
        StageArgument("channels", x.shape[1]),
        *window_arguments("n", x.shape[2:], 1),
        *window_arguments("o", main.shape[2:], 1),
        *window_arguments("k", w.shape[2:], 1),
        *window_arguments("s", strides, 1),
        *window_arguments("p", paddings, 0),
        *window_arguments("d", dilations, 1),
    )
    scratch = {"left": multiply_nums(w.shape)} if is_transposed else {}
    columns = () if is_point or is_direct else (x.shape[0], multiply_nums((x.shape[1], taps, points)))
    variables = {
        **product.variables, "is_point": is_point, "is_transposed": is_transposed, "is_phased": is_phased,
        "scratch": scratch, "columns": columns, "column_elements": COLUMN_BYTES // 4, "left_batch": "o % groups",
        "is_windowed": not is_point, "rank": rank, "gathers": gathers, "shift_bytes": SHIFT_BYTES,
        "is_direct": is_direct, "padded": is_transposed or not all(is_number(n, 0) for n in paddings),
        "has_bias": is_bias(pattern),
    }  # fmt: skip
    traits = {"few channels" if is_narrow else "channels", "direct" if is_direct else "columns"}
    if is_phased:  # the vector cores process the result even if no steps follow
        traits |= {"epilogue"}
    is_dense = not is_point and not is_transposed and (pattern.epilogue is None or is_bias(pattern))
    is_deep = in_channels.value >= LEAST_CHANNELS and max(multiply_nums(x.shape[2:]).values) <= MOST_TERMS
    fits = max(calculate("mul", taps, out_channels).values) <= MOST_TERMS and max(w.shape[-1].values) <= MOST_COLUMNS
    if is_dense and is_deep and is_number(strides[-1], 1) and fits:
        traits |= {"lines"}
    return PatternDescription((*tensors, *product.arguments, *window), variables, product.traits | traits)


def is_bias(pattern: KernelPattern) -> bool:
    """Whether the only step after a convolution adds one number per channel."""
    after = pattern.epilogue
    if after is None or after.op != "add" or len(pattern.operands) != 1 or len(after.args) != 2:
        return False
    return all(x.op == "leaf" for x in after.args) and pattern.operands[0].present == (False, True, False)


def is_number(num: Num, value: int) -> bool:
    """Whether a number is a literal with this value."""
    return num.is_literal and num.value == value


def window_arguments(kind: str, nums: Shape, filler: int) -> tuple[StageArgument, ...]:
    """The numbers of a window under the names `kd`, `kh`, `kw`; absent leading axes have the filler."""
    padded = (Num.of(filler),) * (len(AXES) - len(nums)) + tuple(nums)
    return tuple(StageArgument(f"{kind}{axis}", n) for axis, n in zip(AXES, padded))


OF_PRODUCTS = ("block", "columns", "ktile", "accumulate", "reduce")
"""Decisions about products on the vector unit, which sums of shifted lines do not have."""
template = KernelTemplate(
    decisions=(
        *(d._replace(excluded_by="few channels") for d in PRODUCT_DECISIONS if d.name == "unit"),
        *(d._replace(options=("vector",), trait="few channels") for d in PRODUCT_DECISIONS if d.name == "unit"),
        Decision("windows", ("vector", "cube"), one_of("unit", "cube"), trait="lines"),
        *(d._replace(excluded_by="direct") for d in PRODUCT_DECISIONS if d.name in OF_PRODUCTS),
        *(d for d in PRODUCT_DECISIONS if d.name not in (*OF_PRODUCTS, "unit")),
    ),
    describe=describe,
)
