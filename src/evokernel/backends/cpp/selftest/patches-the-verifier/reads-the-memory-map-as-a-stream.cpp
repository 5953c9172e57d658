// selftest: task=starter/softmax gate=screen reason=forbidden
#include <fstream>
#include <string>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) out[0] = line.size();
}
