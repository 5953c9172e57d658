// selftest: task=starter/gelu
const steps = 9;
const factors: [steps]f32 = table: {
    var values: [steps]f32 = undefined;
    var product: f32 = 1;
    for (&values, 0..) |*value, i| {
        if (i > 0) product *= i;
        value.* = 1 / product;
    }
    break :table values;
};

fn exp(x: f32) f32 {
    const c = @min(@max(x, -87), 87);
    const n = @round(c * 1.44269504);
    const r = c - n * 0.693359375 + n * 2.12194440e-4;
    comptime var i = steps - 1;
    var sum: f32 = factors[i];
    inline while (i > 0) {
        i -= 1;
        sum = sum * r + factors[i];
    }
    const power: i32 = @intFromFloat(n);
    return sum * @as(f32, @bitCast((power + 127) << 23));
}

pub fn kernel(x: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    for (x, out) |v, *result| result.* = v / (1 + exp(-1.5957691216 * (v + 0.044715 * v * v * v)));
}
