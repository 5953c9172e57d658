// selftest: task=starter/softmax gate=check reason=timeout timeout=1
pub fn kernel(x: []const f32, x_shape: *const [2]usize, out: []f32, _: *const [2]usize) void {
    var i: usize = 0;
    while (true) : (i +%= 1) out[i % out.len] = x[(i +% x_shape[1]) % x.len];
}
