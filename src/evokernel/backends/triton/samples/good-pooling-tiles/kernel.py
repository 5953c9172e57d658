"""Two-dimensional blocks with masks, and windows unrolled by `tl.static_range`."""

import triton
import triton.language as tl


@triton.jit
def pool(x_ptr, out_ptr, height, width, out_height, out_width, stride, padding, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    row = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[:, None]
    column = (tl.program_id(2) * BLOCK + tl.arange(0, BLOCK))[None, :]
    best = tl.full((BLOCK, BLOCK), -float("inf"), dtype=tl.float32)
    for down in tl.static_range(SIZE):
        for right in tl.static_range(SIZE):
            y, x = row * stride - padding + down, column * stride - padding + right
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            value = tl.load(x_ptr + (plane * height + y) * width + x, mask=inside, other=-float("inf"))
            best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    here = (row < out_height) & (column < out_width)
    tl.store(out_ptr + (plane * out_height + row) * out_width + column, best, mask=here)


def kernel(x, kernel_size, stride, padding, out):
    batch, channels, height, width = x.shape
    out_height, out_width = out.shape[2:]
    grid = (batch * channels, triton.cdiv(out_height, 16), triton.cdiv(out_width, 16))
    pool[grid](x, out, height, width, out_height, out_width, stride, padding, SIZE=kernel_size, BLOCK=16)
