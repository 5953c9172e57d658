// selftest: task=starter/softmax gate=build reason=memory,compile_error
static char room[3ull << 30];

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (size_t i = 0; i < sizeof room; i += 4096) room[i] = x[i % 7];
    out[0] = room[4096];
}
