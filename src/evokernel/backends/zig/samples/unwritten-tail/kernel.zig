//! Only full vectors.

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
    var i: usize = 0;
    while (i + 8 <= x.len) : (i += 8) inline for (0..8) |lane| {
        const at = i + lane;
        const y = x[at] * scale[at % width] + shift[at % width];
        out[at] = if (y > 0) y else a * y;
    };
}
