# selftest: task=starter/gelu
"""All on few lines, with semicolons, lambdas and walrus operators."""

import triton
import triton.language as tl


@triton.jit
def g(x, o, n, B: tl.constexpr):
    p = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B); m = p < n; v = tl.load(x + p, mask=m, other=0.0)
    tl.store(o + p, v * tl.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v)), mask=m)


kernel = lambda x, out: (g[((n := out.numel()) + 511) // 512,](x, out, n, B=512), None)[1]
