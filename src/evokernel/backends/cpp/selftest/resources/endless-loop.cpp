// selftest: task=starter/softmax gate=check reason=timeout timeout=1
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile bool on = true;
    while (on) {
    }
}
