// selftest: task=starter/softmax gate=screen reason=forbidden
extern "C" long process_vm_readv(int, const void*, unsigned long, const void*, unsigned long, unsigned long);
extern "C" int getppid();

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = process_vm_readv(getppid(), nullptr, 0, nullptr, 0, 0);
}
