// selftest: task=starter/matmul gate=build reason=forbidden
extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*,
                       const int*, const float*, float*, const int*);

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    const int rows = m, inner = k, columns = n;
    const float one = 1, zero = 0;
    sgemm_("N", "N", &columns, &rows, &inner, &one, b, &columns, a, &inner, &zero, out, &columns);
}
