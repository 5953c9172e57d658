// selftest: task=starter/softmax gate=check,sanitize reason=crash,out_of_bounds
// Writes over the frames of the functions that called it.
pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    var here: [16]f32 = undefined;
    for (0..8192 + x_shape[0]) |i| here[i] = x[i % x.len];
    out[0] = here[x_shape[1] % 16];
}
