//! Explicit vectors with a scalar tail.

const V = @Vector(8, f32);

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
    const factor: V = @splat(a);
    for (0..x_shape[0]) |row| {
        const in = x[row * width ..][0..width];
        const to = out[row * width ..][0..width];
        var c: usize = 0;
        while (c + 8 <= width) : (c += 8) {
            const y = @mulAdd(V, in[c..][0..8].*, scale[c..][0..8].*, shift[c..][0..8].*);
            to[c..][0..8].* = @select(f32, y > @as(V, @splat(0)), y, factor * y);
        }
        while (c < width) : (c += 1) {
            const y = in[c] * scale[c] + shift[c];
            to[c] = if (y > 0) y else a * y;
        }
    }
}
