// selftest: task=starter/softmax gate=screen reason=forbidden
extern "C" int socket(int, int, int);
extern "C" int connect(int, const void*, unsigned);

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = ::socket(2, 1, 0);
}
