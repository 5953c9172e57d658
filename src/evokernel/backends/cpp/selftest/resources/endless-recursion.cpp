// selftest: task=starter/softmax gate=check reason=crash
static float deeper(const float* x, volatile float* kept) {
    volatile float room[64];
    room[0] = kept[0] + x[0];
    return deeper(x, room) + room[0];
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile float first = 0;
    out[0] = deeper(x, &first);
}
