// selftest: task=starter/softmax gate=build reason=build_timeout,memory,compile_error,killed backend.build_timeout_s=2
fn Nest(comptime n: usize) type {
    @setEvalBranchQuota(4_000_000_000);
    return struct {
        inner: Nest(n + 1),
    };
}

pub fn kernel(_: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    out[0] = @floatFromInt(@sizeOf(Nest(0)));
}
