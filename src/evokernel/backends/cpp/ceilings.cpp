// Measures one core: bandwidth beyond and within the caches, and float32 fused multiply-adds.
// Prints: memory GB/s, first-level cache GB/s, GFLOP/s, bytes of a data set that still counts as cached.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <vector>

// Time charged to this process, so that others on the machine do not count.
static double now() {
    timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

// a = a * s + b: two reads and one write per element. Best of several passes, because others use the caches too.
static double bandwidth(size_t floats, int passes, int repeats) {
    std::vector<float> a(floats, 1.0f), b(floats, 2.0f);
    float* __restrict x = a.data();
    const float* __restrict y = b.data();
    double best = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        double start = now();
        for (int pass = 0; pass < passes; ++pass) {
            for (size_t i = 0; i < floats; ++i) x[i] = x[i] * 0.5f + y[i];
            asm volatile("" : : "r"(x) : "memory");
        }
        best = std::max(best, 12.0 * floats * passes / (now() - start));
    }
    return best / 1e9;
}

#if defined(__AVX512F__)
enum { WIDTH = 64 };
#elif defined(__AVX__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
typedef float vec __attribute__((vector_size(WIDTH)));

#if defined(__x86_64__)
#define OPAQUE(v) asm volatile("" : "+x"(v))
#elif defined(__aarch64__)
#define OPAQUE(v) asm volatile("" : "+w"(v))
#else
#define OPAQUE(v) asm volatile("" : "+m"(v))
#endif

// The factor is made opaque so that the product is neither shared nor moved out of the loop.
#define STEP(v) v += m * s; OPAQUE(v); OPAQUE(m);

// Twelve independent chains: enough to hide the latency, few enough to stay in registers.
static double multiply_adds(int repeats) {
    double best = 0;
    vec total = {};
    for (int repeat = 0; repeat < repeats; ++repeat) {
        vec a = {}, b = {}, c = {}, d = {}, e = {}, f = {}, g = {}, h = {}, i = {}, j = {}, k = {}, l = {};
        vec m = vec{} + 0.999f, s = vec{} + 0.0001f;
        const int rounds = 300000;
        double start = now();
        for (int round = 0; round < rounds; ++round) {
            STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h) STEP(i) STEP(j) STEP(k) STEP(l)
        }
        best = std::max(best, 2.0 * (WIDTH / sizeof(float)) * 12 * rounds / (now() - start));
        total += a + b + c + d + e + f + g + h + i + j + k + l;
    }
    volatile float keep = total[0];
    (void)keep;
    return best / 1e9;
}

int main() {
    double memory = bandwidth(size_t(8) << 20, 1, 10);
    double cache = bandwidth(2048, 2000, 20);
    std::printf("%.3f %.3f %.3f %zu\n", memory, cache, multiply_adds(10), size_t(512) << 10);
}
