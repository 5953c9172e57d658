// selftest: task=starter/sum_rows gate=sanitize reason=out_of_bounds
// The lanes behind the end are masked away, but they are read.
const V = @Vector(8, f32);

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    const cols = x_shape[1];
    const lanes: V = .{ 0, 1, 2, 3, 4, 5, 6, 7 };
    for (out, 0..) |*result, row| {
        var sum: V = @splat(0);
        var c: usize = 0;
        while (c < cols) : (c += 8) {
            const v: V = x[row * cols + c ..][0..8].*;
            const limit: V = @splat(@floatFromInt(cols - c));
            sum += @select(f32, lanes < limit, v, @as(V, @splat(0)));
        }
        result.* = @reduce(.Add, sum);
    }
}
