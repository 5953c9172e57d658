// selftest: task=starter/softmax gate=build reason=forbidden,memory,build_timeout,compile_error
// Megabytes of a built object from one line of text.
var room: [4 << 20]u8 = @splat(1);

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    for (&room, 0..) |*value, i| value.* +%= @truncate(i);
    out[0] = x[0] + @as(f32, @floatFromInt(room[x_shape[1]]));
}
