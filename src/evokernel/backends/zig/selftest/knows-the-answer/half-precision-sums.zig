// selftest: task=starter/matmul gate=check reason=mismatch
pub fn kernel(
    a: []const f32,
    a_shape: *const [2]usize,
    b: []const f32,
    b_shape: *const [2]usize,
    out: []f32,
    _: *const [2]usize,
) void {
    const m, const k = a_shape.*;
    const n = b_shape[1];
    for (0..m) |i| for (0..n) |j| {
        var sum: f16 = 0;
        for (0..k) |p| sum += @as(f16, @floatCast(a[i * k + p])) * @as(f16, @floatCast(b[p * n + j]));
        out[i * n + j] = sum;
    };
}
