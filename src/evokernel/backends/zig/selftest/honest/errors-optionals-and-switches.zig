// selftest: task=starter/argmax
const Found = error{NothingThere};

fn position(row: []const f32, wanted: f32) Found!usize {
    for (row, 0..) |value, i| if (value == wanted) return i;
    return Found.NothingThere;
}

fn highest(row: []const f32) ?f32 {
    if (row.len == 0) return null;
    var high = row[0];
    for (row) |value| high = @max(high, value);
    return high;
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []i64, _: *const [1]usize) void {
    const cols = x_shape[1];
    for (out, 0..) |*result, r| {
        const row = x[r * cols ..][0..cols];
        result.* = switch (row.len) {
            0 => 0,
            else => if (highest(row)) |high| @intCast(position(row, high) catch 0) else 0,
        };
    }
}
