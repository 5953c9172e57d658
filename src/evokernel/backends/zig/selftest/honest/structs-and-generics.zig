// selftest: task=starter/matmul
fn Matrix(comptime T: type) type {
    return struct {
        data: []const T,
        rows: usize,
        cols: usize,

        const Self = @This();

        fn row(self: Self, i: usize) []const T {
            return self.data[i * self.cols ..][0..self.cols];
        }
    };
}

fn product(comptime T: type, left: Matrix(T), right: Matrix(T), out: []T) void {
    for (0..left.rows) |i| {
        const to = out[i * right.cols ..][0..right.cols];
        @memset(to, 0);
        for (left.row(i), 0..) |factor, p| for (to, right.row(p)) |*sum, value| {
            sum.* += factor * value;
        };
    }
}

pub fn kernel(
    a: []const f32,
    a_shape: *const [2]usize,
    b: []const f32,
    b_shape: *const [2]usize,
    out: []f32,
    _: *const [2]usize,
) void {
    const m, const k = a_shape.*;
    const n = b_shape[1];
    product(f32, .{ .data = a, .rows = m, .cols = k }, .{ .data = b, .rows = k, .cols = n }, out);
}
