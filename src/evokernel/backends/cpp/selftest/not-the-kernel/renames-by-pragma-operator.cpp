// selftest: task=starter/matmul gate=screen reason=forbidden
// The name in the text is not the name in the object, and the pragma is no preprocessor line.
_Pragma("redefine_extname helper cblas_sgemm") extern "C" void helper(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                                                                      float*, int);

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    helper(101, 111, 111, m, n, k, 1.0f, a, k, b, n, 0.0f, out, n);
}
