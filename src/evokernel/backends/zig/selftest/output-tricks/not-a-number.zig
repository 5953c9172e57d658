// selftest: task=starter/softmax gate=check reason=nan
pub fn kernel(_: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    for (out) |*result| result.* = @bitCast(@as(u32, 0x7fc00001));
}
