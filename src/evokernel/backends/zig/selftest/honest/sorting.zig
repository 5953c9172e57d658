// selftest: task=starter/argmax
// Far more work than needed: the sort is stable, so that the first of equal values comes first.
const std = @import("std");

fn isHigher(row: []const f32, left: usize, right: usize) bool {
    return row[left] > row[right];
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []i64, _: *const [1]usize) void {
    const cols = x_shape[1];
    const order = std.heap.c_allocator.alloc(usize, cols) catch @panic("no memory");
    defer std.heap.c_allocator.free(order);
    for (out, 0..) |*result, r| {
        for (order, 0..) |*place, i| place.* = i;
        std.mem.sort(usize, order, x[r * cols ..][0..cols], isHigher);
        result.* = @intCast(order[0]);
    }
}
