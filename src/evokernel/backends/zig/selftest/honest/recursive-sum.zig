// selftest: task=starter/sum_rows
fn pairwise(row: []const f32) f32 {
    if (row.len <= 8) {
        var sum: f32 = 0;
        for (row) |value| sum += value;
        return sum;
    }
    const half = row.len / 2;
    return pairwise(row[0..half]) + pairwise(row[half..]);
}

pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [1]usize) void {
    const cols = x_shape[1];
    for (out, 0..) |*result, row| result.* = pairwise(x[row * cols ..][0..cols]);
}
