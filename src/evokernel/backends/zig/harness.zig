//! The root of every build: exports the entry point that `entry.zig` defines, and reports the findings of a safe build.

const is_safe = @import("builtin").mode != .fast;
extern const __ehdr_start: u8;
extern fn write(file: c_int, text: [*]const u8, len: usize) isize;
extern fn abort() noreturn;

comptime {
    _ = @import("entry.zig");
}

pub const panic = struct {
    pub fn call(text: []const u8, address: ?usize) noreturn {
        @branchHint(.cold);
        if (!is_safe) @trap();
        var place = (address orelse @returnAddress()) - @intFromPtr(&__ehdr_start);
        var digits: [16]u8 = undefined;
        for (0..16) |i| {
            digits[15 - i] = "0123456789abcdef"[place % 16];
            place /= 16;
        }
        for ([_][]const u8{ "zig: ", text, " at 0x", &digits, "\n" }) |part| _ = write(2, part.ptr, part.len);
        abort();
    }
    pub fn sentinelMismatch(expected: anytype, _: @TypeOf(expected)) noreturn {
        call("sentinel mismatch", @returnAddress());
    }
    pub fn unwrapError(_: anyerror) noreturn {
        call("unwrapped an error", @returnAddress());
    }
    pub fn outOfBounds(_: usize, _: usize) noreturn {
        call("index out of bounds", @returnAddress());
    }
    pub fn startGreaterThanEnd(_: usize, _: usize) noreturn {
        call("start of a slice out of bounds: it is larger than the end", @returnAddress());
    }
    pub fn inactiveUnionField(active: anytype, _: @TypeOf(active)) noreturn {
        call("access of an inactive union field", @returnAddress());
    }
    pub fn sliceCastLenRemainder(_: usize) noreturn {
        call("slice length does not divide exactly into the elements", @returnAddress());
    }
    pub fn reachedUnreachable() noreturn {
        call("reached unreachable code", @returnAddress());
    }
    pub fn unwrapNull() noreturn {
        call("unwrapped a null", @returnAddress());
    }
    pub fn castToNull() noreturn {
        call("cast makes a pointer null", @returnAddress());
    }
    pub fn incorrectAlignment() noreturn {
        call("incorrect alignment", @returnAddress());
    }
    pub fn invalidErrorCode() noreturn {
        call("invalid error code", @returnAddress());
    }
    pub fn unexpectedErrorCode(_: anyerror) noreturn {
        call("unexpected error code", @returnAddress());
    }
    pub fn integerOutOfBounds() noreturn {
        call("an integer does not fit into the type it is cast to", @returnAddress());
    }
    pub fn integerOverflow() noreturn {
        call("integer overflow", @returnAddress());
    }
    pub fn shlOverflow() noreturn {
        call("left shift overflowed bits", @returnAddress());
    }
    pub fn shrOverflow() noreturn {
        call("right shift overflowed bits", @returnAddress());
    }
    pub fn divideByZero() noreturn {
        call("division of an integer by zero", @returnAddress());
    }
    pub fn exactDivisionRemainder() noreturn {
        call("exact division produced a remainder", @returnAddress());
    }
    pub fn integerPartOutOfBounds() noreturn {
        call("a float does not fit into the integer it is cast to", @returnAddress());
    }
    pub fn corruptSwitch() noreturn {
        call("switch on a corrupt value", @returnAddress());
    }
    pub fn shiftRhsTooBig() noreturn {
        call("shift by more bits than the type has", @returnAddress());
    }
    pub fn invalidEnumValue() noreturn {
        call("invalid enum value", @returnAddress());
    }
    pub fn forLenMismatch() noreturn {
        call("for loop over slices of different lengths", @returnAddress());
    }
    pub fn copyLenMismatch() noreturn {
        call("@memcpy between slices of different lengths, which would be out of bounds", @returnAddress());
    }
    pub fn memcpyAlias() noreturn {
        call("@memcpy between slices that overlap", @returnAddress());
    }
    pub fn noreturnReturned() noreturn {
        call("a noreturn function returned", @returnAddress());
    }
    pub fn loadUninstantiableType() noreturn {
        call("load of a type without values", @returnAddress());
    }
};
