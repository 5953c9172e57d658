// selftest: task=starter/softmax gate=check,sanitize reason=crash,out_of_bounds
// Writes over the frames of whoever called it.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile char here[16];
    volatile char* at = here;
    for (int i = 0; i < 8192; ++i) at[i] = 0;
    out[0] = at[5];
}
