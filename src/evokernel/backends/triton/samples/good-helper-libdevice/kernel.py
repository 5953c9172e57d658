"""A product, and a helper of the candidate's own with `libdevice.erf`; `tl.where` chooses what is added."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + libdevice.erf(x * 0.7071067811865476))


@triton.jit
def linear_gelu(x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for step in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=2):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        weight = tl.load(weight_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        total = tl.dot(x, weight.T, total, input_precision="ieee")
    total += tl.load(bias_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(out_ptr + m[:, None] * N + n[None, :], gelu(total), mask=(m[:, None] < M) & (n[None, :] < N))


def kernel(x, linear_weight, linear_bias, *rest):
    out = rest[-1]
    M, K = x.shape
    N = linear_weight.shape[0]
    linear_gelu[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, linear_weight, linear_bias, out, M, N, K, BLOCK=32, BLOCK_K=64)
