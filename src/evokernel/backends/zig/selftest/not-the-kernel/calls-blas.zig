// selftest: task=starter/matmul gate=screen reason=forbidden
extern fn cblas_sgemm(c_int, c_int, c_int, c_int, c_int, c_int, f32, *const f32, c_int, *const f32, c_int, f32, *f32, c_int) void;

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
    const size: [3]c_int = .{ @intCast(m), @intCast(n), @intCast(k) };
    cblas_sgemm(101, 111, 111, size[0], size[1], size[2], 1, &a[0], size[2], &b[0], size[1], 0, &out[0], size[1]);
}
