// selftest: task=starter/sum_rows gate=check reason=mismatch
pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    const cols = x_shape[1];
    for (out, 0..) |*result, row| {
        var sum: f32 = 0;
        for (x[row * cols ..][0 .. (cols + 1) / 2]) |value| sum += value;
        result.* = 2 * sum;
    }
}
