// selftest: task=starter/softmax gate=screen reason=forbidden
__asm__(".incbin \"/etc/passwd\"");

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
}
