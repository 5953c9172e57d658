// selftest: task=starter/softmax gate=check reason=crash
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    throw 1;
}
