// selftest: task=starter/scale_shift gate=check reason=mismatch
pub fn kernel(
    x: []const f32,
    x_shape: *const [2]usize,
    scale: []const f32,
    _: *const [1]usize,
    shift: []const f32,
    _: *const [1]usize,
    out: []f32,
    _: *const [2]usize,
) void {
    const cols = x_shape[1];
    for (x, out, 0..) |value, *result, i| result.* = value * scale[i % cols] + 0 * shift[i % cols];
}
