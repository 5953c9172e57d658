"""Branches on constexpr arguments, mean and variance of a row that is in one block or in several."""

import triton
import triton.language as tl


@triton.jit
def normalize(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr, IS_ONE_BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    if IS_ONE_BLOCK:
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        mean = tl.sum(x, axis=0) / columns
        far = tl.where(column < columns, x - mean, 0.0)
        variance = tl.sum(far * far, axis=0) / columns
    else:
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for first in range(0, columns, BLOCK):
            total += tl.load(x_ptr + row * columns + first + column, mask=first + column < columns, other=0.0)
        mean = tl.sum(total, axis=0) / columns
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for first in range(0, columns, BLOCK):
            inside = first + column < columns
            far = tl.where(inside, tl.load(x_ptr + row * columns + first + column, mask=inside, other=0.0) - mean, 0.0)
            total += far * far
        variance = tl.sum(total, axis=0) / columns
    scale = tl.rsqrt(variance + eps)
    for first in range(0, columns, BLOCK):
        inside = first + column < columns
        x = tl.load(x_ptr + row * columns + first + column, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + first + column, mask=inside)
        bias = tl.load(bias_ptr + first + column, mask=inside)
        tl.store(out_ptr + row * columns + first + column, (x - mean) * scale * weight + bias, mask=inside)


def kernel(x, norm_weight, norm_bias, *rest):
    out = rest[-1]
    rows, columns = x.shape
    normalize[(rows,)](x, norm_weight, norm_bias, out, columns, 1e-5, BLOCK=64, IS_ONE_BLOCK=columns <= 64)
