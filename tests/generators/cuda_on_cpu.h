// Runs CUDA kernels on the CPU, one thread of a block after the other, each as a fibre that waits at barriers and shuffles.
// Device memory is host memory. Launches are rewritten to `emulate(...)` before compilation. Shared memory is static memory.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) alignas(bytes)
#define __expf expf
#define __logf logf
#define __sinf sinf
#define __cosf cosf
#define __powf powf

typedef void* cudaStream_t;
struct Index {
    unsigned x;
};
enum State { RUNNABLE, AT_SHUFFLE, AT_BARRIER, FINISHED };
struct Fibre {
    ucontext_t context;
    Index index;
    State state;
    float shuffled;
};
static std::vector<Fibre> fibres;
static std::vector<char> stacks;
static ucontext_t scheduler;
static Fibre* current;
static Index blockIdx, gridDim;
static std::function<void()> body;
alignas(64) static unsigned char dynamic_shared[1 << 20];
static const size_t STACK = 64 << 10;
#define threadIdx (current->index)

static void wait_as(State state) {
    current->state = state;
    swapcontext(&current->context, &scheduler);
}
static void __syncthreads() { wait_as(AT_BARRIER); }
static float shuffle(float value, unsigned from) {
    current->shuffled = value;
    wait_as(AT_SHUFFLE);
    const float other = fibres[from].shuffled;
    wait_as(AT_SHUFFLE);
    return other;
}
static float __shfl_xor_sync(unsigned, float value, int lanes) { return shuffle(value, threadIdx.x ^ lanes); }
static float __shfl_up_sync(unsigned, float value, unsigned lanes) { return shuffle(value, threadIdx.x % 32 < lanes ? threadIdx.x : threadIdx.x - lanes); }
static float __shfl_sync(unsigned, float value, unsigned lane) { return shuffle(value, threadIdx.x / 32 * 32 + lane % 32); }
static void run_fibre() {
    body();
    current->state = FINISHED;
    swapcontext(&current->context, &scheduler);
}

// Lets the threads of a range go on if all of them that have not finished wait in the same way.
static bool release(size_t first, size_t stop, State state) {
    bool is_any = false;
    for (size_t i = first; i < stop; ++i) {
        if (fibres[i].state != state && fibres[i].state != FINISHED) return false;
        is_any |= fibres[i].state == state;
    }
    for (size_t i = first; i < stop; ++i)
        if (fibres[i].state == state) fibres[i].state = RUNNABLE;
    return is_any;
}

static void emulate_block(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) {
        fibres[i].index.x = i;
        fibres[i].state = RUNNABLE;
        getcontext(&fibres[i].context);
        fibres[i].context.uc_stack.ss_sp = stacks.data() + i * STACK;
        fibres[i].context.uc_stack.ss_size = STACK;
        fibres[i].context.uc_link = nullptr;
        makecontext(&fibres[i].context, run_fibre, 0);
    }
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (unsigned i = 0; i < threads; ++i)
            if (fibres[i].state == RUNNABLE) {
                current = &fibres[i];
                swapcontext(&scheduler, &fibres[i].context);
                is_any = true;
            }
        for (unsigned i = 0; i < threads; i += 32) is_any |= release(i, i + 32, AT_SHUFFLE);
        is_any |= release(0, threads, AT_BARRIER);
    }
    for (unsigned i = 0; i < threads; ++i)
        if (fibres[i].state != FINISHED) std::fprintf(stderr, "thread %u waits for ever\n", i), std::abort();
}

static void emulate(unsigned blocks, unsigned threads, size_t shared, cudaStream_t, std::function<void()> call) {
    if (blocks == 0 || threads % 32 || threads > 1024 || shared > sizeof dynamic_shared) std::fprintf(stderr, "wrong launch\n"), std::abort();
    fibres.resize(threads);
    stacks.resize(threads * STACK);
    body = call;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) emulate_block(threads);
}

struct __half {
    uint16_t bits;
    explicit __half(float value) {
        const float size = std::fabs(value);
        const int power = size < 6.103515625e-5f ? -14 : std::ilogb(size);
        const float digits = std::nearbyint(std::ldexp(size, 10 - power));
        bits = size != size ? 0x7e00 : size >= 65520.0f ? 0x7c00 : size < 6.103515625e-5f ? (int)digits : ((power + 14) << 10) + (int)digits;
        bits |= std::signbit(value) << 15;
    }
    __half() = default;
    operator float() const {
        const int power = bits >> 10 & 31, digits = bits & 1023;
        const float size = power == 31 ? (digits ? NAN : INFINITY) : power ? std::ldexp(1024.0f + digits, power - 25) : std::ldexp((float)digits, -24);
        return bits >> 15 ? -size : size;
    }
};
struct __nv_bfloat16 {
    uint16_t bits;
    explicit __nv_bfloat16(float value) {
        uint32_t all;
        std::memcpy(&all, &value, 4);
        bits = value != value ? 0x7fc0 : (all + 0x7fff + (all >> 16 & 1)) >> 16;
    }
    __nv_bfloat16() = default;
    operator float() const {
        const uint32_t all = (uint32_t)bits << 16;
        float value;
        std::memcpy(&value, &all, 4);
        return value;
    }
};

enum { cudaDevAttrMultiProcessorCount, cudaFuncAttributeMaxDynamicSharedMemorySize };
static int cudaDeviceGetAttribute(int* value, int, int) { return *value = 2, 0; }
template <class F>
static int cudaFuncSetAttribute(F*, int, int) { return 0; }
static int cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) { return *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256), std::memset(*memory, 255, bytes), 0; }
static int cudaFreeAsync(void* memory, cudaStream_t) { return std::free(memory), 0; }
