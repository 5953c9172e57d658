// selftest: task=starter/softmax gate=check reason=crash
fn descend(x: []const f32, depth: usize) f32 {
    var frame: [256]f32 = undefined;
    for (&frame, 0..) |*value, i| value.* = x[i % x.len] + @as(f32, @floatFromInt(depth));
    const below = descend(&frame, depth + 1);
    return below + frame[depth % 256];
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    out[0] = descend(x, x_shape[1]);
}
