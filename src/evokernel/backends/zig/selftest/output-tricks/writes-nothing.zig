// selftest: task=starter/softmax gate=check reason=unwritten
pub fn kernel(_: []const f32, _: *const [2]usize, _: []f32, _: *const [2]usize) void {}
