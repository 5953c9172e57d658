# selftest: task=starter/layernorm gate=check reason=mismatch,nan
"""The mean of squares less the square of the mean."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x) / columns
    d = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(x * x) / columns - mean * mean
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, d / tl.sqrt(variance + 1e-5) * weight + bias, mask=inside)


def kernel(x, norm_weight, norm_bias, dim, out):
    rows, columns = x.shape
    layer_norm[(rows,)](x, norm_weight, norm_bias, out, columns, BLOCK=triton.next_power_of_2(columns))
