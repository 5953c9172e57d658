// Not the declared signature and no C linkage: this defines something else.
void kernel(const float* x, float* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = x[i];
}
