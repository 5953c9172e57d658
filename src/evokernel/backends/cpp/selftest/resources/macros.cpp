// selftest: task=starter/softmax gate=build reason=build_timeout,memory,compile_error backend.build_timeout_s=1
// Ten lines, ten thousand million words.
#define A x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
#define B A + A + A + A + A + A + A + A + A + A
#define C B + B + B + B + B + B + B + B + B + B
#define D C + C + C + C + C + C + C + C + C + C
#define E D + D + D + D + D + D + D + D + D + D
#define F E + E + E + E + E + E + E + E + E + E
#define G F + F + F + F + F + F + F + F + F + F
#define H G + G + G + G + G + G + G + G + G + G
#define I H + H + H + H + H + H + H + H + H + H

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = I + I + I + I + I + I + I + I + I + I;
}
