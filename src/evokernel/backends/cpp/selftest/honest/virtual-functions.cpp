// selftest: task=starter/gelu
// Objects, inheritance, function pointers, std::function.
#include <functional>
#include <memory>

struct Shape {
    virtual ~Shape() = default;
    virtual float of(float value) const = 0;
};
struct Gelu final : Shape {
    float of(float value) const override {
        return 0.5f * value * (1 + std::tanh(0.7978845608028654f * (value + 0.044715f * value * value * value)));
    }
};
static float first(const Shape& shape, float value) { return shape.of(value); }

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const std::unique_ptr<Shape> shape = std::make_unique<Gelu>();
    float (*const apply)(const Shape&, float) = first;
    const std::function<float(float)> whole = [&](float value) { return apply(*shape, value); };
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = whole(x[i]);
}
