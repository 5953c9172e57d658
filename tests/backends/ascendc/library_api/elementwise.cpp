// Kernels that apply one library function to a vector.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

struct Sizes {
  uint32_t count, capacity, mode;  // mode: 0 with a buffer and a count, 1 a count, 2 with a buffer, 3 neither
  float scalar;
};

}  // namespace

template <typename T, typename F> void onOne(unsigned char* const* arguments, F f) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[3]);
  TPipe pipe;
  TBuf<TPosition::VECCALC> in, out, scratch;
  GlobalTensor<T> x, y;
  x.SetGlobalBuffer(reinterpret_cast<T*>(arguments[0]));
  y.SetGlobalBuffer(reinterpret_cast<T*>(arguments[1]));
  pipe.InitBuffer(in, sizes.capacity * sizeof(T));
  pipe.InitBuffer(out, sizes.capacity * sizeof(T));
  pipe.InitBuffer(scratch, 32 * 1024);
  LocalTensor<T> from = in.Get<T>(), to = out.Get<T>();
  DataCopy(from, x, sizes.capacity);
  Duplicate(to, T(0), int32_t(sizes.capacity));
  PipeBarrier<PIPE_ALL>();
  f(to, from, scratch.Get<uint8_t>(), sizes);
  PipeBarrier<PIPE_ALL>();
  DataCopy(y, to, sizes.capacity);
}

#define FOUR_FORMS(NAME)                                                                                                        \
  extern "C" void NAME##_float(unsigned char* const* arguments) {                                                               \
    onOne<float>(arguments, [](auto to, auto from, auto scratch, const Sizes& sizes) {                                          \
      if (sizes.mode == 0) NAME(to, from, scratch, sizes.count);                                                                \
      if (sizes.mode == 1) NAME<float, false>(to, from, sizes.count);                                                           \
      if (sizes.mode == 2) NAME<float>(to, from, scratch);                                                                      \
      if (sizes.mode == 3) NAME(to, from);                                                                                      \
    });                                                                                                                         \
  }                                                                                                                             \
  extern "C" void NAME##_half(unsigned char* const* arguments) {                                                                \
    onOne<half>(arguments, [](auto to, auto from, auto scratch, const Sizes& sizes) { NAME(to, from, scratch, sizes.count); }); \
  }
#define TWO_FORMS(NAME)                                                                \
  extern "C" void NAME##_float(unsigned char* const* arguments) {                      \
    onOne<float>(arguments, [](auto to, auto from, auto scratch, const Sizes& sizes) { \
      if (sizes.mode == 0) NAME(to, from, scratch, sizes.count);                       \
      if (sizes.mode == 1) NAME(to, from, sizes.count);                                \
    });                                                                                \
  }
#define ONE_FORM(NAME, ...)                                                                                                    \
  extern "C" void NAME##_float(unsigned char* const* arguments) {                                                              \
    onOne<float>(arguments, [](auto to, auto from, auto, const Sizes& sizes) { NAME(to, from, sizes.count, ##__VA_ARGS__); }); \
  }

FOUR_FORMS(Tanh)
FOUR_FORMS(Sigmoid)
FOUR_FORMS(Erf)
FOUR_FORMS(Erfc)
FOUR_FORMS(Log2)
FOUR_FORMS(Sin)
FOUR_FORMS(Cos)
FOUR_FORMS(Tan)
FOUR_FORMS(Asin)
FOUR_FORMS(Acos)
FOUR_FORMS(Atan)
FOUR_FORMS(Sinh)
FOUR_FORMS(Cosh)
FOUR_FORMS(Asinh)
FOUR_FORMS(Acosh)
FOUR_FORMS(Atanh)
FOUR_FORMS(Frac)
FOUR_FORMS(Sign)
FOUR_FORMS(Trunc)
TWO_FORMS(Ceil)
TWO_FORMS(Floor)
TWO_FORMS(Round)
TWO_FORMS(Lgamma)
TWO_FORMS(Digamma)
TWO_FORMS(Gelu)
TWO_FORMS(FasterGelu)
TWO_FORMS(FasterGeluV2)
ONE_FORM(Log)
ONE_FORM(Log10)
ONE_FORM(Silu)
ONE_FORM(Swish, sizes.scalar)
