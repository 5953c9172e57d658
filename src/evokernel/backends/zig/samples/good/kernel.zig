//! One pass over the rows; the word asm in a comment harms nobody.

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
    for (0..x_shape[0]) |row| {
        const in = x[row * width ..][0..width];
        const to = out[row * width ..][0..width];
        for (in, scale, shift, to) |value, factor, summand, *result| {
            const y = value * factor + summand;
            result.* = if (y > 0) y else a * y;
        }
    }
}
