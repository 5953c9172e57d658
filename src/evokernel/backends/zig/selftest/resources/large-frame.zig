// selftest: task=starter/softmax gate=check reason=crash
pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    var room: [1 << 25]f32 = undefined;
    for (&room, 0..) |*value, i| value.* = x[i % x.len];
    out[0] = room[x_shape[1]];
}
