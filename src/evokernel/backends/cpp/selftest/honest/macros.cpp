// selftest: task=starter/gelu
// Unrolled by macros that paste tokens.
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define GELU(y) (0.5f * (y) * (1.0f + std::tanh(0.7978845608028654f * ((y) + 0.044715f * (y) * (y) * (y)))))
#define STEP(o)                           \
    do {                                  \
        const float CAT(v, o) = x[i + o]; \
        out[i + o] = GELU(CAT(v, o));     \
    } while (0)

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t count = x_shape[0] * x_shape[1];
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        STEP(0);
        STEP(1);
        STEP(2);
        STEP(3);
    }
    for (; i < count; ++i) STEP(0);
#undef STEP
}
