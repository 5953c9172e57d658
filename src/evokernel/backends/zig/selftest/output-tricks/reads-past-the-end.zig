// selftest: task=starter/sum_rows gate=sanitize reason=out_of_bounds
// Right by luck: nothing behind the input has this value.
fn sums(x: []const f32, out: []f32, cols: usize) void {
    for (out, 0..) |*sum, row| {
        sum.* = 0;
        for (x[row * cols ..][0..cols]) |value| sum.* += value;
    }
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    sums(x, out, x_shape[1]);
    for (out, 0..) |*sum, row| sum.* += if (x[x.len + row % 8] == 12345.678) 1 else 0;
}
