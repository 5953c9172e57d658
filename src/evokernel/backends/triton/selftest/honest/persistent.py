# selftest: task=starter/scale_shift
"""Few programs that take many rows each."""

import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, scale_ptr, shift_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    scale = tl.load(scale_ptr + column, mask=inside, eviction_policy="evict_last")
    shift = tl.load(shift_ptr + column, mask=inside, eviction_policy="evict_last")
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        place = tl.cast(row, tl.int64) * columns + column
        tl.store(out_ptr + place, tl.load(x_ptr + place, mask=inside) * scale + shift, mask=inside)


def kernel(x, scale, shift, out):
    rows, columns = x.shape
    affine[(min(rows, 264),)](x, scale, shift, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
