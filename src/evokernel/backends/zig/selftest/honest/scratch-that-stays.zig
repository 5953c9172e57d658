// selftest: task=starter/softmax
// Memory that stays between calls, without anything of an earlier call in it.
var room: [1 << 16]f32 = undefined;

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    const cols = x_shape[1];
    const powers = room[0..cols];
    for (0..x_shape[0]) |row| {
        const in = x[row * cols ..][0..cols];
        var high = in[0];
        var sum: f32 = 0;
        for (in) |value| high = @max(high, value);
        for (in, powers) |value, *power| {
            power.* = @exp(value - high);
            sum += power.*;
        }
        for (powers, out[row * cols ..][0..cols]) |power, *result| result.* = power / sum;
    }
}
