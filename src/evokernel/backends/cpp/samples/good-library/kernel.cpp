// What the standard library is needed for is the writer's affair, as long as it stays within the process.
#include <complex>
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

static float detour(float value) {
    std::map<int, float> tree{{1, value}, {2, 0.0f}};
    tree.erase(2);
    std::set<int> seen{3, 1, 2};
    std::unordered_map<std::string, float> table{{std::string(40, 'x'), tree[1]}};
    std::list<float> chain{table.begin()->second};
    std::shared_ptr<float> shared = std::make_shared<float>(chain.front());
    std::function<float(float)> same = [shared](float) { return *shared; };
    std::complex<float> turned = std::exp(std::log(std::complex<float>(1.0f, 0.5f)));
    std::mt19937 chance(7);
    std::vector<int> order(8);
    std::iota(order.begin(), order.end(), static_cast<int>(chance() % 2));
    std::stable_sort(order.begin(), order.end(), std::greater<int>());
    return seen.size() == 3 && order.at(0) > 6 && std::abs(turned) > 1.0f ? same(0.0f) : 0.0f;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = detour(static_cast<float>(slope));
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) {
            const float y = x[i * width + j] * scale[j] + shift[j];
            out[i * width + j] = y > 0 ? y : a * y;
        }
    }
}
