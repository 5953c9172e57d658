// selftest: task=starter/softmax
// system("rm -rf /"), fork(), torch.matmul, dlopen, asm volatile, mmap, exec: only words.
/* #include "/etc/passwd"
   #define syscall
   __attribute__((constructor)) */
static const char* const help = "open(), read(), kill -9; #include <fstream>; asm(\"svc 0\")";
static const char quote = '"', other = '\'';
static const char* const raw = R"text(syscall " fork ( )" mprotect)text";

struct Window {
    const float* data;
    int64_t cols;
    const float* open(int64_t row) const { return data + row * cols; }
    static float read(const float* at) { return *at; }
    static void write(float* at, float value) { *at = value; }
};
static float time(float exit) { return std::exp(exit); }

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const Window window{x, x_shape[1]};
    for (int64_t signal = 0; signal < x_shape[0]; ++signal) {
        const float* row = window.open(signal);
        float* target = out + signal * window.cols;
        float clock = Window::read(row), system = 0;
        for (int64_t thread = 1; thread < window.cols; ++thread) clock = std::max(clock, row[thread]);
        for (int64_t thread = 0; thread < window.cols; ++thread) {
            Window::write(target + thread, time(row[thread] - clock));
            system += target[thread];
        }
        for (int64_t thread = 0; thread < window.cols; ++thread) target[thread] /= system;
    }
    if (help[0] == quote || raw[0] == other) out[0] = 0;
}
