// selftest: task=starter/layernorm gate=check reason=mismatch,nan
// The mean of the squares less the square of the mean: cancels where the mean is large.
pub fn kernel(
    x: []const f32,
    x_shape: *const [2]usize,
    weight: []const f32,
    _: *const [1]usize,
    bias: []const f32,
    _: *const [1]usize,
    _: i64,
    out: []f32,
    _: *const [2]usize,
) void {
    const cols = x_shape[1];
    const count: f32 = @floatFromInt(cols);
    for (0..x_shape[0]) |row| {
        const in = x[row * cols ..][0..cols];
        var sum: f32 = 0;
        var squares: f32 = 0;
        for (in) |value| {
            sum += value;
            squares += value * value;
        }
        const mean = sum / count;
        const factor = 1 / @sqrt(squares / count - mean * mean + 1e-5);
        for (in, weight, bias, out[row * cols ..][0..cols]) |value, w, b, *result| result.* = (value - mean) * factor * w + b;
    }
}
