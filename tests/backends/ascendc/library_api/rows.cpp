// Kernels that apply one library function to the rows of a matrix.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

struct Shape {
  uint32_t rows, stride, width, mode;
  float scalar;
  uint32_t first, second, scratch;
};

}  // namespace

// What a kernel of this file has in local memory: three inputs, three outputs, scratch.
template <typename T> struct Bench {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffers[7];
  Shape shape;
  unsigned char* const* arguments;
  static constexpr uint32_t BYTES = 20 * 1024;

  explicit Bench(unsigned char* const* given) : arguments(given) {
    shape = simulator::tilingAs<Shape>(given[7]);
    for (int i = 0; i < 6; i++) pipe.InitBuffer(buffers[i], BYTES);
    pipe.InitBuffer(buffers[6], shape.scratch ? shape.scratch : 32 * 1024);
    for (int i = 0; i < 3; i++) {
      GlobalTensor<uint8_t> from;
      from.SetGlobalBuffer(arguments[i]);
      DataCopy(buffers[i].Get<uint8_t>(), from, BYTES);
    }
    for (int i = 3; i < 6; i++) Duplicate(buffers[i].Get<float>(), 0.0f, int32_t(BYTES / 4));
    PipeBarrier<PIPE_ALL>();
  }
  template <typename U = T> LocalTensor<U> in(int i) { return buffers[i].Get<U>(); }
  template <typename U = T> LocalTensor<U> out(int i) { return buffers[3 + i].Get<U>(); }
  LocalTensor<uint8_t> scratch() { return buffers[6].Get<uint8_t>(); }
  SoftMaxShapeInfo info() const { return {shape.rows, shape.stride, shape.rows, shape.width}; }
  ~Bench() noexcept(false) {
    if (std::uncaught_exceptions()) return;
    PipeBarrier<PIPE_ALL>();
    for (int i = 0; i < 3; i++) {
      GlobalTensor<uint8_t> to;
      to.SetGlobalBuffer(arguments[3 + i]);
      DataCopy(to, buffers[3 + i].Get<uint8_t>(), BYTES);
    }
  }
};

#define KERNEL(NAME, T, ...)                              \
  extern "C" void NAME(unsigned char* const* arguments) { \
    Bench<T> b(arguments);                                \
    const Shape& s = b.shape;                             \
    (void)s;                                              \
    __VA_ARGS__                                           \
  }

KERNEL(soft_max, float, if (s.mode == 0) SoftMax<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.scratch(), SoftMaxTiling{}, b.info());
       if (s.mode == 1) SoftMax<float>(b.out(0), b.in(0), SoftMaxTiling{}, b.info());)
KERNEL(soft_max_half, half, SoftMax<half>(b.out(0), b.out<float>(1), b.out<float>(2), b.in(0), b.scratch(), SoftMaxTiling{}, b.info());)
KERNEL(simple_soft_max, float, SimpleSoftMax<float>(b.out(0), b.in(1), b.in(2), b.in(0), b.scratch(), SoftMaxTiling{}, b.info());)
KERNEL(flash, float,
       SoftMaxTiling tiling = SoftMaxFlashV2TilingFuncImpl(s.rows, s.stride, sizeof(float), sizeof(float), 512, true, false);
       SoftmaxFlashV2<float, true>(b.out(0), b.in(1), b.in(2), b.in(0), b.out(1), b.in(1), b.in(2), b.scratch(), tiling);
       DataCopy(b.out(2), b.in(1), s.rows * 8);)
KERNEL(flash_first, float,
       SoftmaxFlashV2<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.out(1), b.in(1), b.in(2), SoftMaxTiling{}, b.info());)
KERNEL(soft_max_grad, float, SoftmaxGrad<float>(b.out(0), b.in(0), b.in(1), b.scratch(), SoftMaxTiling{}, s.mode == 1, b.info());)
KERNEL(log_soft_max, float, LogSoftMax<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.scratch(), LogSoftMaxTiling{}, b.info());)

KERNEL(layer_norm, float, LayerNormTiling t; t.bLength = 1; t.sLength = s.rows; t.hLength = s.stride; t.originalHLength = s.width;
       LayerNorm<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.in(1), b.in(2), b.scratch(), s.scalar, t);)
KERNEL(layer_norm_rstd, float,
       LayerNorm<float, float>(b.out(0), b.out(1), b.out(2), b.in(0), b.in(1), b.in(2), s.scalar, LayerNormPara{s.rows, s.width, s.stride},
                               LayerNormSeparateTiling{});)
KERNEL(layer_norm_grad, float, LayerNormGradTiling t; t.bLength = 1; t.sLength = s.rows; t.hLength = t.originalHLength = s.stride;
       auto mean = b.in(2)[64]; auto variance = b.in(2)[128];
       LayerNormGrad<float>(b.out(0), b.out(1), b.in(0), b.in(1), variance, mean, b.in(2), b.scratch(), s.scalar, t);)
KERNEL(layer_norm_grad_beta, float, LayerNormGradBetaTiling t; t.bLength = 1; t.sLength = s.rows; t.hLength = t.originalHLength = s.stride;
       LayerNormGradBeta<float>(b.out(0), b.out(1), b.in(0), b.in(1), t);)
KERNEL(rms_norm, half, RmsNormTiling t; t.bLength = s.rows; t.sLength = 1; t.hLength = s.stride; t.originalHLength = s.width;
       RmsNorm<half>(b.out(0), b.in(0), b.in(1), b.scratch(), half(s.scalar), t);)
KERNEL(group_norm, float, GroupNormTiling t; t.n = s.rows; t.c = s.first; t.hw = s.width; t.g = s.second;
       GroupNorm<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.in(1), b.in(2), b.scratch(), s.scalar, t);)
KERNEL(batch_norm, float, BatchNormTiling t; t.originalBLength = s.rows; t.meanVarSize = s.stride;
       BatchNorm<float>(b.out(0), b.out(1), b.out(2), b.in(0), b.in(1), b.in(2), b.scratch(), s.scalar, t);)

KERNEL(sum_rows, float, Sum(b.out(0), b.in(0), b.scratch(), SumParams{s.rows, s.stride, s.width});
       Mean<float>(b.out(1), b.in(0), MeanParams{s.rows, s.stride, s.width});)
template <class P> void reduceAll(Bench<float>& b) {
  const uint32_t shape[] = {b.shape.rows, b.shape.width};
  ReduceSum<float, P>(b.out(0), b.in(0), b.scratch(), shape, true);
  ReduceProd<float, P>(b.out(1), b.in(0), b.scratch(), shape, true);
  if (b.shape.mode == 0)
    ReduceMax<float, P>(b.out(2), b.in(0), shape, true);
  else
    ReduceMean<float, P>(b.out(2), b.in(0), shape, true);
}
KERNEL(reduce_rows, float, reduceAll<Pattern::Reduce::AR>(b);)
KERNEL(reduce_columns, float, reduceAll<Pattern::Reduce::RA>(b);)
constexpr CumSumConfig downwards{false, false, true};
KERNEL(running_sums, float, auto to = b.out(0); auto last = b.out(1); auto scratch = b.scratch();
       if (s.mode == 0) CumSum<float>(to, last, b.in(0), scratch, CumSumInfo{s.rows, s.stride});
       else CumSum<float, downwards>(to, last, b.in(0), scratch, CumSumInfo{s.rows, s.stride});)

KERNEL(repeat, float, const uint32_t to[] = {s.rows, s.width};
       const uint32_t from[] = {s.mode == 0 ? s.rows : 1, s.mode == 0 ? 1 : s.width}; auto scratch = b.scratch();
       Broadcast<float, 2, 1>(b.out(0), b.in(0), to, from, scratch);)
KERNEL(select_bytes, float, SelectWithBytesMaskShapeInfo i; i.firstAxis = s.rows; i.srcLastAxis = s.stride; i.maskLastAxis = s.first;
       SelectWithBytesMask(b.out(0), b.in(0), s.scalar, b.in<uint8_t>(1), b.scratch(), i);
       SelectWithBytesMask(b.out(1), s.scalar, b.in(0), b.in<uint8_t>(1), b.scratch(), i);)
KERNEL(drop, float, DropOutShapeInfo i; i.firstAxis = s.rows; i.srcLastAxis = s.stride; i.maskLastAxis = s.first;
       DropOut(b.out(0), b.in(0), b.in<uint8_t>(1), b.scratch(), s.scalar, i);)
KERNEL(largest, float,
       TopK<float>(b.out(0), b.out<int32_t>(1), b.in(0), b.in<int32_t>(1), b.in<bool>(2), b.scratch(), int32_t(s.first), TopkTiling{},
                   TopKInfo{int32_t(s.rows), int32_t(s.stride), int32_t(s.width)}, s.mode == 0);)
KERNEL(progression, float, ArithProgression<float>(b.out(0), s.scalar, 0.5f, int32_t(s.width));)
KERNEL(quantise, float, AscendQuant<float>(b.out<int8_t>(0), b.in(0), b.scratch(), s.scalar, 3.0f, s.rows* s.stride);)
KERNEL(dequantise, float, AscendDequant(b.out(0), b.in<int32_t>(0), b.in(1), b.scratch(), DequantParams{s.rows, s.stride, s.width});)
KERNEL(pad_rows, float, PadParams p(uint16_t(s.first), uint16_t(s.second), -7); PadTiling t; t.srcHeight = s.rows; t.srcWidth = s.stride;
       t.srcOriWidth = s.width; Pad(b.out(0), b.in(0), p, b.scratch(), t);)
KERNEL(unpad_rows, float, UnPadParams p(0, uint16_t(s.second)); UnPadTiling t; t.srcHeight = s.rows; t.srcWidth = s.stride;
       auto scratch = b.scratch(); UnPad(b.out(0), b.in(0), p, scratch, t);)

KERNEL(powers, float, if (s.mode == 0) Power(b.out(0), b.in(0), b.in(1), b.scratch(), s.width);
       if (s.mode == 1) Power(b.out(0), b.in(0), s.scalar, s.width);
       if (s.mode == 2) Power<float, false>(b.out(0), s.scalar, b.in(0), b.scratch(), s.width);)
KERNEL(powers_int, int32_t, Power(b.out(0), b.in(0), b.in(1), b.scratch(), s.width);)
KERNEL(gates, float, auto to = b.out(2); GeGLU(b.out(0), b.in(0), b.in(1), b.scratch(), s.width);
       ReGlu(b.out(1), b.in(0), b.in(1), b.scratch(), s.width); SwiGLU(to, b.in(0), b.in(1), s.scalar, b.scratch(), s.width);)
KERNEL(limits, float, ClampMax(b.out(0), b.in(0), s.scalar, s.width); ClampMin(b.out(1), b.in(0), b.scratch(), s.scalar, s.width);
       Fmod(b.out(2), b.in(0), b.in(1), s.width);)
KERNEL(exp_terms, float, Exp<float, 8>(b.out(0), b.in(0), b.scratch(), s.width); Hypot(b.out(1), b.in(0), b.in(1), s.width);)
KERNEL(bits, int16_t, Xor(b.out(0), b.in(0), b.in(1), b.scratch(), s.width);)

// ---- what breaks a rule
KERNEL(silu_in_place, float, Silu(b.in(0), b.in(0), s.width);)
KERNEL(overlapping, float, Tanh(b.in(0)[8], b.in(0), b.scratch(), s.width);)
KERNEL(no_scratch, float, LocalTensor<uint8_t> none; Tanh(b.out(0), b.in(0), none, s.width);)
KERNEL(short_scratch, float, Sin(b.out(0), b.in(0), b.scratch(), s.width);)
KERNEL(tanh_of_int, int32_t, Tanh(b.out(0), b.in(0), b.scratch(), s.width);)
KERNEL(full_unified_buffer, float, TBuf<TPosition::VECCALC> rest; b.pipe.InitBuffer(rest, s.first); Sin(b.out(0), b.in(0), s.width);)

// Mean and variance of a row, one piece of `width` columns after the other: second of `first` pieces.
KERNEL(
    in_pieces, float, auto mean = b.out(0); auto spread = b.out(1); for (uint32_t i = 0; i < s.rows; i++) {
      WelfordUpdateParam by{1, s.width, s.width, 1.0f / float(i + 1)};
      WelfordUpdate<float, float>(mean, spread, mean, spread, b.in(0)[i * s.stride], b.scratch(), by);
    } WelfordFinalizePara end;
    end.rnLength = s.rows; end.abLength = s.width; end.headCount = s.rows; end.headCountLength = s.width;
    end.rRec = 1.0f / float(s.rows * s.width); WelfordFinalize(b.out(2), b.out(2)[8], mean, spread, b.scratch(), end);)
