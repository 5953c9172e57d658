// selftest: task=starter/softmax gate=check reason=crash
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile float room[1 << 25];
    for (int64_t i = 0; i < 1 << 25; i += 1024) room[i] = x[0];
    out[0] = room[1024];
}
