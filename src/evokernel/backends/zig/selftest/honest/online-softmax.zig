// selftest: task=starter/softmax
const std = @import("std");

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    const cols = x_shape[1];
    for (0..x_shape[0]) |row| {
        const in = x[row * cols ..][0..cols];
        var high = -std.math.inf(f32);
        var sum: f32 = 0;
        for (in) |value| {
            const higher = @max(high, value);
            sum = sum * @exp(high - higher) + @exp(value - higher);
            high = higher;
        }
        for (in, out[row * cols ..][0..cols]) |value, *result| result.* = @exp(value - high) / sum;
    }
}
