// selftest: task=starter/softmax gate=build reason=memory,compile_error
var room: [3 << 30]u8 = undefined;

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    var i: usize = 0;
    while (i < room.len) : (i += 4096) room[i] = @intFromFloat(@abs(x[i % 7]));
    out[0] = @floatFromInt(room[x_shape[1]]);
}
