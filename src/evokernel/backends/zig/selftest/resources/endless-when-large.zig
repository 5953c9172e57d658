// selftest: task=starter/sum_rows gate=check reason=timeout timeout=1
// Hangs only at the size that is timed.
fn sums(x: []const f32, out: []f32, cols: usize) void {
    for (out, 0..) |*sum, row| {
        sum.* = 0;
        for (x[row * cols ..][0..cols]) |value| sum.* += value;
    }
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    sums(x, out, x_shape[1]);
    var i: usize = 0;
    while (x_shape[0] >= 2048) : (i +%= 1) out[i % out.len] += 1;
}
