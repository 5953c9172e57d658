//! Every frame has a place of its own.

fn descend(x: []const f32, depth: usize) f32 {
    var frame: [256]f32 = undefined;
    for (&frame, 0..) |*value, i| value.* = x[i % x.len] + @as(f32, @floatFromInt(depth));
    const below = descend(&frame, depth + 1);
    return below + frame[depth % 256];
}

pub fn kernel(
    x: []const f32,
    x_shape: *const [2]usize,
    scale: []const f32,
    _: *const [1]usize,
    shift: []const f32,
    _: *const [1]usize,
    _: i64,
    slope: f64,
    out: []f32,
    _: *const [2]usize,
) void {
    const width = x_shape[1];
    const a: f32 = @floatCast(slope);
    out[0] = descend(x, width) + a + scale[0] + shift[0];
    for (x, out, 0..) |value, *result, i| {
        const y = value * scale[i % width] + shift[i % width];
        result.* = if (y > 0) y else a * y;
    }
}
