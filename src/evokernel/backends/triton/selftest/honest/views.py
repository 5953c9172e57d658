# selftest: task=starter/softmax
"""Views, slices and transposes of its tensors, each half of the rows in a launch of its own."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, x_row, x_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    middle = (rows + 1) // 2
    for part, target in ((x[:middle], out[:middle]), (x[middle:], out.view(-1)[middle * columns :].view(-1, columns))):
        if part.shape[0]:
            turned = part.transpose(0, 1).unsqueeze(0).squeeze(0)
            softmax[(part.shape[0],)](turned, target, columns, turned.stride(1), turned.stride(0), BLOCK=triton.next_power_of_2(columns))
