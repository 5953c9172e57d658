// y = 2 x with correct values, and one of these faults (0: none).
#include <cstdlib>
#include <vector>

static float table[32];
static volatile float sink;
static volatile int64_t many = 32;

__attribute__((noinline)) static const float* of_a_frame(float x) {
    float local[4] = {x, x, x, x};
    const float* volatile place = local;
    return place;
}

__attribute__((noinline)) static float sometimes(int64_t n) {
    if (n < 0) return 1.0f;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, int64_t fault, float* out, const int64_t* out_shape) {
    const int64_t n = x_shape[0];
    for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
    switch (fault) {
        case 1: {
            sink = x[n + 2];  // fault 1
            break;
        }
        case 2: {
            sink = x[-1];  // fault 2
            break;
        }
        case 3: {
            sink = out[n];  // fault 3
            break;
        }
        case 4: {
            sink = (float)x_shape[1];  // fault 4
            break;
        }
        case 5: {
            float local[8];
            float* place = local;
            for (int64_t i = 0; i <= many / 4; ++i) place[i] = x[i];  // fault 5
            sink = local[1];
            break;
        }
        case 6: {
            float* place = table;
            place[many] = 1.0f;  // fault 6
            break;
        }
        case 7: {
            std::vector<float> scratch(n);
            scratch[n] = 1.0f;  // fault 7
            sink = scratch[0];
            break;
        }
        case 8: {
            float* volatile scratch = new float[n];
            delete[] scratch;
            sink = scratch[1];  // fault 8
            break;
        }
        case 9: {
            sink = *of_a_frame(x[0]);  // fault 9
            break;
        }
        case 10: {
            sink = (float)(n / (many - 32));  // fault 10
            break;
        }
        case 11: {
            sink = (float)(1 << many);  // fault 11
            break;
        }
        case 12: {
            sink = table[many];  // fault 12
            break;
        }
        case 13: {
            sink = sometimes(n);
            break;
        }
        case 14: {
            float scratch[16];
            for (int64_t i = 1; i < 16; ++i) scratch[i] = 0.0f;
            if (scratch[many / 32 - 1] < -1e30f) out[0] = 0.0f;
            break;
        }
        case 15: {
            float* volatile scratch = (float*)std::malloc(n * sizeof(float));
            if (!(scratch[n - 1] == scratch[n - 1])) out[0] = 0.0f;
            std::free(scratch);
            break;
        }
        case 16: {
            float* volatile scratch = (float*)std::malloc(n * sizeof(float));
            scratch[0] = x[0];
            break;
        }
        case 17: {
            float* volatile scratch = nullptr;
            for (int64_t i = 0; i < 4; ++i) scratch = (float*)std::malloc(1 << 30);
            break;
        }
        case 18: {
            float parts[4];
            std::memcpy(parts, x + n - 2, sizeof(parts));  // fault 18
            sink = parts[0];
            break;
        }
    }
}
