// selftest: task=starter/sum_rows
pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    const cols = x_shape[1];
    for (out, 0..) |*result, row| {
        var sum: f32 = 0;
        var lost: f32 = 0;
        for (x[row * cols ..][0..cols]) |value| {
            const y = value - lost;
            const total = sum + y;
            lost = (total - sum) - y;
            sum = total;
        }
        result.* = sum;
    }
}
