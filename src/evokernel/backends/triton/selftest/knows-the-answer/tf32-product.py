# selftest: task=starter/matmul gate=check reason=mismatch
"""Rounds its factors to ten bits; float32 was asked for."""

import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, out_ptr, m, n, k, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for start in range(0, k, T):
        inner = start + tl.arange(0, T)
        a = tl.load(a_ptr + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + column[None, :], mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32")
    tl.store(out_ptr + row[:, None] * n + column[None, :], acc, mask=(row[:, None] < m) & (column[None, :] < n))


def kernel(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    product[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, out, m, n, k, T=32)
