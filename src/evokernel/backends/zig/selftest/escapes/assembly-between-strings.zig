// selftest: task=starter/softmax gate=screen reason=forbidden
fn softmax(x: []const f32, out: []f32, cols: usize) void {
    for (0..x.len / cols) |row| {
        const in = x[row * cols ..][0..cols];
        const to = out[row * cols ..][0..cols];
        var high = in[0];
        var sum: f32 = 0;
        for (in) |value| high = @max(high, value);
        for (in, to) |value, *power| {
            power.* = @exp(value - high);
            sum += power.*;
        }
        for (to) |*power| power.* /= sum;
    }
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    const left = "a \" /* ";
    asm volatile ("svc #0");
    const right = " */ b";
    _ = .{ left, right };
    softmax(x, out, x_shape[1]);
}
