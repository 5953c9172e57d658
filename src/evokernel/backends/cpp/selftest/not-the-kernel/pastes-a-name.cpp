// selftest: task=starter/matmul gate=build reason=forbidden
// No forbidden word in the text: macros put it together.
#define JOIN(a, b) a##b
extern "C" void* JOIN(dl, sym)(void*, const char*);

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    ((void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int))JOIN(dl, sym)(0, "cblas_sgemm"))(
        101, 111, 111, m, n, k, 1.0f, a, k, b, n, 0.0f, out, n);
}
