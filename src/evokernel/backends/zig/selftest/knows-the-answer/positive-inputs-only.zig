// selftest: task=starter/gelu gate=check reason=mismatch
pub fn kernel(x: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    for (x, out) |value, *result| result.* = @max(value, 0);
}
