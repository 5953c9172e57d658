// selftest: task=starter/matmul gate=check reason=unwritten,nan
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
    for (0..m) |i| for (0..k) |p| for (0..n) |j| {
        out[i * n + j] += a[i * k + p] * b[p * n + j];
    };
}
