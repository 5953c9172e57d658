// selftest: task=starter/softmax gate=check reason=mismatch
pub fn kernel(_: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    @memset(out, 0);
}
