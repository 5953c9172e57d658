# selftest: task=starter/layernorm
"""Mean and variance by a reduction with a function of its own."""

import triton
import triton.language as tl


@triton.jit
def joined(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    share = count_b / tl.maximum(count, 1.0)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), inside.to(tl.float32)), 0, joined)
    d = x - mean
    variance = m2 / count
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, d / tl.sqrt(variance + 1e-5) * weight + bias, mask=inside)


def kernel(x, norm_weight, norm_bias, dim, out):
    rows, columns = x.shape
    layer_norm[(rows,)](x, norm_weight, norm_bias, out, columns, BLOCK=triton.next_power_of_2(columns))
