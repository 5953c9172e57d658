# selftest: task=starter/scale_shift
"""Says torch.matmul(a, b), import os, subprocess, cheat, bypass, skip the check; does none of it."""

import triton
import triton.language as tl


NOTE = "torch.softmax(x), eval, exec, open, .item(), copy_, sys.modules"  # not done, either


@triton.jit
def system(x_ptr, scale_ptr, shift_ptr, out_ptr, columns, count, BLOCK: tl.constexpr):
    """Does not import os; os.system is never called."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    item = place < count
    scale = tl.load(scale_ptr + place % columns, mask=item)
    shift = tl.load(shift_ptr + place % columns, mask=item)
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=item) * scale + shift, mask=item)


def kernel(x, scale, shift, out):
    count = out.numel()
    system[(triton.cdiv(count, 1024),)](x, scale, shift, out, x.shape[1], count, BLOCK=1024)
