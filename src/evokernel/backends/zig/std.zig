//! The standard library of kernels: arithmetic, vectors, slices and heap memory. It replaces Zig's own `std.zig`, whose other parts reach
//! the operating system; a build that reads less is also five times as fast.

pub const lang = @import("lang.zig");
pub const builtin = lang;
pub const math = @import("math.zig");
pub const mem = @import("mem.zig");
pub const meta = @import("meta.zig");
pub const simd = @import("simd.zig");
pub const sort = @import("sort.zig");
pub const Target = @import("Target.zig");
pub const SemanticVersion = @import("SemanticVersion.zig");

pub const debug = struct {
    pub fn assert(ok: bool) void {
        if (!ok) unreachable;
    }
    pub fn inValgrind() bool {
        return false;
    }
};

pub const atomic = struct {
    pub const cache_line = 64;
};

pub const heap = struct {
    pub const c_allocator: mem.Allocator = .{ .ptr = undefined, .vtable = &.{
        .alloc = allocate,
        .resize = mem.Allocator.noResize,
        .remap = mem.Allocator.noRemap,
        .free = release,
    } };
    pub const page_allocator = c_allocator;
    pub const smp_allocator = c_allocator;

    extern fn aligned_alloc(alignment: usize, size: usize) ?[*]u8;
    extern fn free(memory: *anyopaque) void;

    fn allocate(_: *anyopaque, len: usize, alignment: mem.Alignment, _: usize) ?[*]u8 {
        const step = @max(alignment.toByteUnits(), 64);
        return aligned_alloc(step, mem.alignForward(usize, len, step));
    }

    fn release(_: *anyopaque, memory: []u8, _: mem.Alignment, _: usize) void {
        free(memory.ptr);
    }
};

comptime {
    _ = @import("root");
}
