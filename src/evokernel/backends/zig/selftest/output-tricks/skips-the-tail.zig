// selftest: task=starter/gelu gate=check reason=unwritten
const std = @import("std");

pub fn kernel(x: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    for (x[0 .. x.len - x.len % 8], out[0 .. x.len - x.len % 8]) |v, *result| {
        result.* = 0.5 * v * (1 + std.math.tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
    }
}
