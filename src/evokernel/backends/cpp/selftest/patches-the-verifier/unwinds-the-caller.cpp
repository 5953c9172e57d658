// selftest: task=starter/softmax gate=build reason=forbidden
// Unwinds past its own frame into the program that called it.
struct Unwound {
    uint64_t kind;
    void (*done)(int, Unwound*);
    uint64_t kept[6];
};
extern "C" int _Unwind_ForcedUnwind(Unwound*, int (*)(int, int, uint64_t, Unwound*, void*, void*), void*);
static int stop(int, int, uint64_t, Unwound*, void*, void*) { return 0; }

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    static Unwound unwound;
    _Unwind_ForcedUnwind(&unwound, stop, nullptr);
}
