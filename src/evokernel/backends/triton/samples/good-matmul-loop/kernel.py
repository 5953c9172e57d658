"""A loop over K with `tl.dot`, masks on every side, and a grouped order of tiles."""

import triton
import triton.language as tl


@triton.jit
def find_tile(number, rows, columns, GROUP: tl.constexpr):
    first = number // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    place = number % (GROUP * columns)
    return first + place % height, place // height


@triton.jit
def multiply(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tile_m, tile_n = find_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), 4)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(out_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def kernel(a, b, out):
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
    multiply[grid](a, b, out, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
