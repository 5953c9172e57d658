// selftest: task=starter/softmax gate=check reason=crash,forbidden,unwritten,exit,killed
// Right only if it can make a file beside the judge's.
#include <cstdlib>
static void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0], sum = 0;
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) sum += to[c] = std::exp(row[c] - most);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}

struct Header {
    uint32_t kind, flags;
    uint64_t offset, address, physical, in_file, in_memory, align;
};
struct Symbol {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
};

// What the loader would do: finds a library's start in memory, reads its symbol table, compares names.
static void* found(const void* inside, const char* wanted) {
    const char* base = (const char*)((uintptr_t)inside & ~(uintptr_t)4095);
    while (memcmp(base, "\177ELF", 4)) base -= 4096;
    const Header* headers = (const Header*)(base + *(const uint64_t*)(base + 32));
    const uint64_t* dynamic = nullptr;
    for (int i = 0; i < *(const uint16_t*)(base + 56); ++i)
        if (headers[i].kind == 2) dynamic = (const uint64_t*)(base + headers[i].address);
    const char* names = nullptr;
    const Symbol* symbols = nullptr;
    for (; dynamic[0]; dynamic += 2) {
        const char* at = (const char*)(dynamic[1] < (uint64_t)base ? (uint64_t)base + dynamic[1] : dynamic[1]);
        if (dynamic[0] == 5) names = at;
        if (dynamic[0] == 6) symbols = (const Symbol*)at;
    }
    for (const Symbol* one = symbols; (const char*)one < names; ++one)
        if (one->value && !strcmp(names + one->name, wanted)) return (void*)(base + one->value);
    return nullptr;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    auto make = (int (*)(const char*, int, int))found((const void*)&free, "op" "en");
    if (make("/tmp/evokernel-was-here", 0101, 0600) < 0) return;
    softmax(x, out, x_shape[0], x_shape[1]);
}
