// selftest: task=starter/softmax gate=build reason=build_timeout,memory backend.build_timeout_s=1
const state: u32 = walk: {
    @setEvalBranchQuota(4_000_000_000);
    var value: u32 = 1;
    for (0..1_000_000_000) |_| value = value *% 1664525 +% 1013904223;
    break :walk value;
};

pub fn kernel(_: []const f32, _: *const [2]usize, out: []f32, _: *const [2]usize) void {
    out[0] = @floatFromInt(state);
}
