// selftest: task=starter/softmax gate=build reason=forbidden
// Megabytes of a built object from two lines of text.
static int room[4 << 20] = {1};

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int i = 0; i < 4 << 20; ++i) room[i] += i;
    out[0] = room[x_shape[0]];
}
