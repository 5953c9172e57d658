import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"M": m, "N": n, "K": k, "G": 8}, num_warps=w, num_stages=s)
    for m, n, k, w, s in ((128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 256, 64, 8, 4), (64, 256, 64, 4, 4), (256, 128, 64, 8, 3))
]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"])
@triton.jit
def product(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr):
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    group = tl.program_id(0) // (G * columns)
    here = min(rows - group * G, G)
    i = (group * G + (tl.program_id(0) % (G * columns)) % here) * M + tl.arange(0, M)
    j = ((tl.program_id(0) % (G * columns)) // here) * N + tl.arange(0, N)
    p = tl.arange(0, K)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for q in range(0, k, K):
        left = tl.load(a + i[:, None] * k + (q + p)[None, :], mask=(i[:, None] < m) & ((q + p)[None, :] < k), other=0.0)
        right = tl.load(b + (q + p)[:, None] * n + j[None, :], mask=((q + p)[:, None] < k) & (j[None, :] < n), other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(out + i[:, None] * n + j[None, :], acc.to(tl.bfloat16), mask=(i[:, None] < m) & (j[None, :] < n))


def kernel(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    product[lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)](a, b, out, m, n, k)
