// y = 2 x, with constructs that are legal and that a sanitizer might report as faults.
#include <omp.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <vector>

static volatile float sink;
static volatile int number;
typedef float lanes __attribute__((vector_size(16), aligned(4)));
typedef int whole __attribute__((vector_size(16)));

struct Shape {
    virtual float of(float x) const { return x; }
    virtual ~Shape() = default;
};
struct Doubled : Shape {
    float of(float x) const override { return 2 * x; }
};

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t n = x_shape[0];
    static float* kept = (float*)std::malloc(64 * sizeof(float));
    thread_local std::vector<float> scratch;
    scratch.resize(n);
    kept[63] = x[n - 1];

    float large[500000];  // three of these share memory without a sanitizer
    large[n] = kept[63];
    sink = large[n];
    for (int round = 0; round < 4; ++round) {
        float other[500000];
        other[n + round] = sink;
        sink = other[n + round];
    }
    { float third[500000]; third[n] = sink; sink = third[n]; }
    { float fourth[500000]; fourth[n] = sink; sink = fourth[n]; }
    { float fifth[500000]; fifth[n] = sink; sink = fifth[n]; }

    int hash = 12345;
    for (int i = 0; i < 100; ++i) hash = hash * 1103515245 + 12345;  // wraps around
    number = hash;
    const int minus = -5;
    number = minus << 3;
    number = (int)(1e30f * (n + 1));
    whole sums = {2147483647, 1, 2, 3};
    sums += sums;
    number = sums[0];

    lanes part;
    std::memcpy(&part, x + 1, sizeof(part));
    sink = (*(const lanes*)(x + 1) + part)[0];  // aligned to 4 bytes
    std::vector<float> nothing;
    std::memcpy(nothing.data(), x, nothing.size() * sizeof(float));
    float unset[8];
    unset[0] = x[0];
    for (int i = 0; i < 8; ++i) unset[i] = 2 * unset[i];  // only one is used
    sink = unset[0];
    float* mixed = new float[n];
    mixed[0] = 1.0f;
    std::free(mixed);
    std::map<int, float> tree{{1, 2.0f}, {2, 3.0f}};
    try {
        if (tree.at(2) > tree.at(1)) throw std::runtime_error("caught");
    } catch (const std::exception&) {
        sink = 1.0f;
    }

    const Doubled doubled;
    const Shape& shape = doubled;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; ++i) scratch[i] = shape.of(x[i]);
    for (int64_t i = 0; i < n; ++i) out[i] = scratch[i];
}
