"""Algorithms and block sizes of convolutions and poolings that suit their images: how much of an image fits into VMEM."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.block_limits import STEPS, extent_of, largest_option
from evokernel.generators.template_search.dialects.pallas.row_program import (
    BLOCK_BYTES,
    FLOAT_BYTES,
    LANES,
    SUBLANES,
    matrix_bytes,
    matrix_bytes_of,
)
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.patterns import KernelPattern

PATCHES_BYTES = 8 << 20
"""Largest patches of an image that one step of a convolution collects."""
MOST_SPAN = 2048
"""Most positions of a convolution in one product."""
IMAGE_PAIR_BYTES = 48 << 20
"""Largest pair of images for which VMEM still has room for patches and results: every block has two buffers."""
STRIP_COPIES = 6
"""Strips in VMEM: two neighbours, each in two buffers, and both once more, next to each other."""
POOL_SPAN = 1024
"""Positions of a strip of a pooling whose window does not reach further."""
IMAGES_BYTES = 24 << 20
"""Largest block of images that a pooling reads in one step."""


def padded_image_bytes(pattern: KernelPattern) -> float:
    """Bytes of the padded image of one group of channels; a transposed convolution works on one as large as its result and the window."""
    x, w = pattern.tensors
    depth = x.shape[1].value / pattern.numbers[-1].value
    return matrix_bytes_of([depth, prod(n.value + k.value - 1 for n, k in zip(padded_image_space(pattern), w.shape[2:]))])


def padded_image_space(pattern: KernelPattern) -> Sequence[Num]:
    """The extents of the image of a convolution before padding, with zeros between its elements if it is transposed."""
    (main,), (x, _) = pattern.main_nodes, pattern.tensors
    return main.shape[2:] if main.name == "transposed" else x.shape[2:]


def fit_conv_algorithm(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Strips of the image if two images do not fit into VMEM; patches that are collected before the kernel if strips do not, either."""
    if "strips" not in options or 2 * padded_image_bytes(pattern) <= IMAGE_PAIR_BYTES:
        return ""
    return "strips" if STRIP_COPIES * strip_bytes(pattern) <= IMAGE_PAIR_BYTES else "patches"


def strip_bytes(pattern: KernelPattern) -> float:
    """Bytes of a strip of a padded image: at least as many positions as a window reaches."""
    x, w = pattern.tensors
    rank = len(w.shape) - 2
    dilations = pattern.numbers[2 * rank : 3 * rank]
    sizes = [n.value + a.value * (k.value - 1) for n, k, a in zip(padded_image_space(pattern), w.shape[2:], dilations)]
    reach = sum(a.value * (k.value - 1) * prod(sizes[i + 1 :]) for i, (k, a) in enumerate(zip(w.shape[2:], dilations)))
    return matrix_bytes_of([x.shape[1].value / pattern.numbers[-1].value, MOST_SPAN * (reach // MOST_SPAN + 1)])


def fit_span(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Positions of a convolution in one step: all of them if the patches of an image are small enough."""
    (main,) = pattern.main_nodes
    patch_bytes = extent_of(pattern.tensors[1].shape[1:]) * FLOAT_BYTES
    return "all" if patch_bytes * extent_of(main.shape[2:]) <= PATCHES_BYTES and "all" in options else largest_option(options, MOST_SPAN)


def fit_pool_algorithm(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Images as they are stored, if several of them fit into VMEM, or one that is too large for a lane; a lane for each, if these fit;
    contiguous rows; strips of images; or elements that were stacked before, if windows reach too far for strips."""
    (main,), image = pattern.main_nodes, pattern.tensors[0].shape
    image = image[-(len(main.nums) // 4) :]
    image_bytes, is_planar = matrix_bytes(image[-2:]), "strided" in options
    if is_planar and image_bytes <= 2 * BLOCK_BYTES:
        return "strided"
    if LANES * extent_of(image) * FLOAT_BYTES <= IMAGES_BYTES:
        return "lanes"
    if is_planar and image_bytes <= IMAGES_BYTES:
        return "strided"
    if SUBLANES * extent_of(image) * FLOAT_BYTES <= IMAGES_BYTES:
        return "shifts"
    return "strips" if STRIP_COPIES * SUBLANES * pool_strip_bytes(pattern) <= IMAGES_BYTES else "stacked"


def pool_strip_bytes(pattern: KernelPattern) -> float:
    """Bytes of a strip of one image of a pooling, in all phases of its strides: at least as many positions as a window reaches."""
    (main,), shape = pattern.main_nodes, pattern.tensors[0].shape
    rank = len(main.nums) // 4
    window, strides, paddings, dilations = ([n.value for n in main.nums[i * rank : (i + 1) * rank]] for i in range(4))
    rest = [-(-(n.value + 2 * p) // s) for n, p, s in zip(shape[-rank:], paddings, strides)]
    reach = sum((k - 1) * a // s * prod(rest[i + 1 :]) for i, (k, a, s) in enumerate(zip(window, dilations, strides)))
    return prod(strides) * max(POOL_SPAN, reach) * FLOAT_BYTES


def fit_pool_images(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Images of a block of half a mebibyte: the padded copy of a block needs VMEM, too. Flat images fill all sublanes."""
    if choice["algorithm"] == "shifts":
        return largest_option(options, SUBLANES)
    if choice["algorithm"] == "strips":
        return largest_option(options, max(SUBLANES, BLOCK_BYTES / 2 / pool_strip_bytes(pattern)))
    shape = pattern.tensors[0].shape
    return largest_option(options, min(BLOCK_BYTES / 2 / matrix_bytes(shape[-2:]), extent_of(shape[:-2]) / STEPS))
