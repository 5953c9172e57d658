"""Configurations for the tuner, a heuristic for the mask, and tanh written with `tl.exp`."""

import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 2048}, num_warps=8)], key=["count"])
@triton.heuristics({"IS_EVEN": lambda meta: meta["count"] % meta["BLOCK"] == 0})
@triton.jit
def gelu(x_ptr, out_ptr, count, BLOCK: tl.constexpr, IS_EVEN: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if IS_EVEN:
        x = tl.load(x_ptr + place)
    else:
        x = tl.load(x_ptr + place, mask=place < count)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x / (1.0 + tl.exp(-2.0 * inner))
    if IS_EVEN:
        tl.store(out_ptr + place, y)
    else:
        tl.store(out_ptr + place, y, mask=place < count)


def kernel(x, out):
    gelu[lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)](x, out, out.numel())
