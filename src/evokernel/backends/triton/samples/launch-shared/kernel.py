"""More buffers in a loop than shared memory holds."""

import triton
import triton.language as tl


TILE = 64


@triton.jit
def gate(x_ptr, scale_ptr, shift_ptr, out_ptr, rows, columns, slope, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    scale = tl.load(scale_ptr + column, mask=column < columns, other=0.0)
    y = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, columns, TILE):
        inner = start + tl.arange(0, TILE)
        inside = (row[:, None] < rows) & (inner[None, :] < columns)
        x = tl.load(x_ptr + row[:, None] * columns + inner[None, :], mask=inside, other=0.0)
        y = tl.dot(x, tl.where(inner[:, None] == column[None, :], scale[None, :], 0.0), y)
    y += tl.load(shift_ptr + column, mask=column < columns, other=0.0)[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], tl.where(y > 0, y, slope * y), mask=inside)


def kernel(x, scale, shift, columns, slope, out):
    rows, width = x.shape
    gate[(triton.cdiv(rows, TILE), triton.cdiv(width, TILE))](x, scale, shift, out, rows, width, slope, TILE=TILE, num_stages=16)
