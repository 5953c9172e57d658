# selftest: task=starter/matmul
"""Blocks of a product in exact float32, in grouped order."""

import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, out_ptr, m, n, k, T: tl.constexpr):
    down, across = tl.cdiv(m, T), tl.cdiv(n, T)
    number = tl.program_id(0)
    first = number // (4 * across) * 4
    height = tl.minimum(down - first, 4)
    row = (first + number % (4 * across) % height) * T + tl.arange(0, T)
    column = (number % (4 * across) // height) * T + tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for start in tl.range(0, k, T, num_stages=2):
        inner = start + tl.arange(0, T)
        a = tl.load(a_ptr + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + column[None, :], mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(out_ptr + row[:, None] * n + column[None, :], acc, mask=(row[:, None] < m) & (column[None, :] < n))


def kernel(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    product[(triton.cdiv(m, 32) * triton.cdiv(n, 32),)](a, b, out, m, n, k, T=32)
