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
    while (i < x.len or out[0] == out[0]) : (i += 1) out[i % out.len] = scale[0] + shift[0] + a + @as(f32, @floatFromInt(i % width));
}
