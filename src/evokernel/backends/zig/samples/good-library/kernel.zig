//! Uses the library: scratch from the heap, std.math and a generic helper.

const std = @import("std");

fn larger(comptime T: type, left: T, right: T) T {
    return if (std.math.isNan(left) or left > right) left else right;
}

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
    const row = std.heap.c_allocator.alloc(f32, width) catch @panic("no memory");
    defer std.heap.c_allocator.free(row);
    for (0..x_shape[0]) |r| {
        for (x[r * width ..][0..width], scale, shift, row) |value, factor, summand, *y| y.* = value * factor + summand;
        for (row, out[r * width ..][0..width]) |y, *result| result.* = larger(f32, y, 0) + a * @min(y, 0);
    }
}
