// Kernels that drive the cube with its own instructions, and cores that wait for each other.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

struct Sizes {
  int32_t m, n, k, mode;
};

}  // namespace

// One product through L1, L0A, L0B and L0C: A is [m, k], B is [k, n], both by rows.
template <typename T, typename S, typename D, const FixpipeConfig& layout>
void multiply(unsigned char* const* arguments, QuantMode_t quant) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[4]);
  if (!(ASCEND_IS_AIC)) return;
  constexpr int STRIP = 32 / sizeof(T);
  uint16_t m = uint16_t(sizes.m), n = uint16_t(sizes.n), k = uint16_t(sizes.k);
  uint16_t m16 = (m + 15) / 16 * 16, n16 = (n + 15) / 16 * 16, kStrip = (k + STRIP - 1) / STRIP * STRIP, k16 = (k + 15) / 16 * 16;
  if (STRIP > 16) k16 = kStrip;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::B1> b1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  pipe.InitBuffer(a1, m16 * k16 * sizeof(T));
  pipe.InitBuffer(b1, k16 * (n16 + STRIP) * sizeof(T));
  pipe.InitBuffer(a2, m16 * k16 * sizeof(T));
  pipe.InitBuffer(b2, k16 * (n16 + STRIP) * sizeof(T));
  pipe.InitBuffer(co1, m16 * n16 * sizeof(S));
  GlobalTensor<T> a, b;
  GlobalTensor<D> c;
  a.SetGlobalBuffer(reinterpret_cast<T*>(arguments[0]));
  b.SetGlobalBuffer(reinterpret_cast<T*>(arguments[1]));
  c.SetGlobalBuffer(reinterpret_cast<D*>(arguments[2]));
  auto leftL1 = a1.Get<T>(), rightL1 = b1.Get<T>(), left = a2.Get<T>(), right = b2.Get<T>();
  auto sums = co1.Get<S>();

  if (sizes.mode < 5) {  // otherwise the rest of the last fractals stays uninitialized
    InitConstValue(leftL1, InitConstValueParams<T>(1, uint16_t(m16 * k16 * sizeof(T) / 32), 0, T(0)));
    InitConstValue(rightL1, InitConstValueParams<T>(1, uint16_t(k16 * (n16 + STRIP) * sizeof(T) / 32), 0, T(0)));
  }
  DataCopy(leftL1, a, Nd2NzParams(1, m, k, 0, k, m16, 1, 0));
  DataCopy(rightL1, b, Nd2NzParams(1, k, n, 0, n, k16, 1, 0));
  if (sizes.mode != 1) {  // 1: forget that L1 must be full before it is read
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
  }
  int strips = kStrip / STRIP;
  for (int i = 0; i < m16 / 16; i++)  // strips of L1 to rows of fractals
    LoadData(left[i * strips * 16 * STRIP], leftL1[i * 16 * STRIP], LoadData2DParams(0, uint8_t(strips), m16 / 16, 0, 0, false, 0));
  if constexpr (sizeof(T) == 2) {
    for (int i = 0; i < k16 / 16; i++)
      LoadData(right[i * n16 * 16], rightL1[i * 256], LoadData2DParams(0, uint8_t(n16 / 16), k16 / 16, 0, 0, true, 0));
  } else {
    int nStrips = (n + STRIP - 1) / STRIP;
    for (int i = 0; i < k16 / 32; i++)
      LoadDataWithTranspose(right[i * n16 * 32], rightL1[i * 1024], LoadData2dTransposeParams(0, uint8_t(nStrips), k16 / 32, 1, 0));
  }
  SetFlag<HardEvent::MTE1_M>(0);
  WaitFlag<HardEvent::MTE1_M>(0);
  MmadParams product;
  product.m = sizes.mode == 6 ? m16 : m;  // 6: multiply rows that were never filled
  product.n = n;
  product.k = k;
  TBuf<TPosition::C1> c1;
  TBuf<TPosition::C2> c2;
  if (std::is_same<T, half>::value && sizes.mode == 4) {  // with the first row of B as biases, which become float on their way
    pipe.InitBuffer(c1, n * sizeof(half));
    pipe.InitBuffer(c2, n * sizeof(float));
    auto halves = c1.Get<half>();
    auto biases = c2.Get<S>();
    GlobalTensor<half> row;
    row.SetGlobalBuffer(reinterpret_cast<half*>(arguments[1]));
    DataCopy(halves, row, n);
    SetFlag<HardEvent::MTE2_MTE1>(1);
    WaitFlag<HardEvent::MTE2_MTE1>(1);
    if constexpr (std::is_same<S, float>::value) DataCopy(biases, halves, DataCopyParams(1, uint16_t(n * sizeof(half) / 64), 0, 0));
    SetFlag<HardEvent::MTE1_M>(1);
    WaitFlag<HardEvent::MTE1_M>(1);
    product.cmatrixInitVal = false;
    Mmad(sums, left, right, biases, product);
  } else {
    Mmad(sums, left, right, product);
  }
  if (sizes.mode == 2) {  // once more on top
    PipeBarrier<PIPE_M>();
    product.cmatrixInitVal = false;
    Mmad(sums, left, right, product);
  }
  SetFlag<HardEvent::M_FIX>(0);
  WaitFlag<HardEvent::M_FIX>(0);
  FixpipeParamsV220 out(n, m, m16, layout.format == CO2Layout::NZ ? uint32_t(m16 * 16 * sizeof(D) / 32) : n, sizes.mode == 3);
  out.quantPre = quant;
  Fixpipe<D, S, layout>(c, sums, out);
}

extern "C" void multiply_half(unsigned char* const* arguments) { multiply<half, float, float, CFG_ROW_MAJOR>(arguments, NoQuant); }
extern "C" void multiply_half_half(unsigned char* const* arguments) { multiply<half, float, half, CFG_ROW_MAJOR>(arguments, F322F16); }
extern "C" void multiply_half_strips(unsigned char* const* arguments) { multiply<half, float, float, CFG_NZ>(arguments, NoQuant); }
extern "C" void multiply_half_wrong(unsigned char* const* arguments) { multiply<half, float, half, CFG_ROW_MAJOR>(arguments, NoQuant); }
extern "C" void multiply_brain(unsigned char* const* arguments) { multiply<bfloat16_t, float, float, CFG_ROW_MAJOR>(arguments, NoQuant); }
extern "C" void multiply_int8(unsigned char* const* arguments) { multiply<int8_t, int32_t, int32_t, CFG_ROW_MAJOR>(arguments, NoQuant); }

// The cube core writes a number for each block; when its flag is up, the block's vector cores double it.
extern "C" void handover(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[3]);
  GlobalTensor<float> first, second;
  first.SetGlobalBuffer(reinterpret_cast<float*>(arguments[0]));
  second.SetGlobalBuffer(reinterpret_cast<float*>(arguments[1]));
  if (ASCEND_IS_AIC) {
    first.SetValue(GetBlockIdx() * 16, float(GetBlockIdx() + 1));
    CrossCoreSetFlag<2, PIPE_FIX>(3);
    CrossCoreWaitFlag(4);
    first.SetValue(GetBlockIdx() * 16 + 1, 7.0f);
    return;
  }
  CrossCoreWaitFlag(3);
  int64_t block = GetBlockIdx() / 2;
  second.SetValue(GetBlockIdx() * 16, 2 * first.GetValue(block * 16));
  if (sizes.mode == 1 && GetSubBlockIdx() == 1) return;  // one of the two forgets to answer
  CrossCoreSetFlag<2, PIPE_MTE3>(4);
}

// Each block adds to what the one before it left.
extern "C" void relay(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[3]);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 4096);
  auto local = buffer.Get<int32_t>();
  GlobalTensor<float> sum;
  GlobalTensor<int32_t> marks;
  sum.SetGlobalBuffer(reinterpret_cast<float*>(arguments[0]));
  marks.SetGlobalBuffer(reinterpret_cast<int32_t*>(arguments[1]));
  int64_t me = GetBlockIdx();
  if (sizes.mode == 0) {
    if (me > 0) IBWait(marks, local, int32_t(me - 1), 0);
    sum.SetValue(me * 16, (me ? sum.GetValue(me * 16 - 16) : 0.0f) + float(me + 1));
    if (me + 1 < GetBlockNum()) IBSet(marks, local, int32_t(me), 0);
  } else {
    InitDetermineComputeWorkspace(marks, local);
    for (int round = 0; round < 2; round++) {
      WaitPreBlock(marks, local);
      sum.SetValue(me * 16 + round, (me ? sum.GetValue(me * 16 - 16 + round) : 0.0f) + float(me + 1));
      NotifyNextBlock(marks, local);
    }
  }
}

// Vector cores of all blocks meet by flags of mode 0, or those of one block by mode 1.
extern "C" void gather(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[3]);
  GlobalTensor<float> in, out;
  in.SetGlobalBuffer(reinterpret_cast<float*>(arguments[0]));
  out.SetGlobalBuffer(reinterpret_cast<float*>(arguments[1]));
  int64_t me = GetBlockIdx(), all = sizes.n;
  in.SetValue(me * 16, float(me + 1));
  CrossCoreSetFlag<0, PIPE_MTE3>(1);
  CrossCoreWaitFlag(1);
  float sum = 0;
  for (int64_t i = 0; i < all; i++) sum += in.GetValue(i * 16);
  out.SetValue(me * 16, sum);
}

// A convolution of 16 channels by 16 filters of 3 x 3, padded by one: the picture is [height, width, 16], the weights are [144, 16].
extern "C" void convolve(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, arguments[4]);
  if (!(ASCEND_IS_AIC)) return;
  uint16_t height = uint16_t(sizes.m), width = uint16_t(sizes.n), depth = uint16_t(sizes.k), pixels = height * width,
           rows = (pixels + 15) / 16 * 16;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::B1> b1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  pipe.InitBuffer(a1, pixels * 16 * sizeof(half));
  pipe.InitBuffer(b1, depth * 16 * sizeof(half));
  pipe.InitBuffer(a2, rows * depth * sizeof(half));
  pipe.InitBuffer(b2, depth * 16 * sizeof(half));
  pipe.InitBuffer(co1, rows * 16 * sizeof(float));
  GlobalTensor<half> picture, weights;
  GlobalTensor<float> out;
  picture.SetGlobalBuffer(reinterpret_cast<half*>(arguments[0]));
  weights.SetGlobalBuffer(reinterpret_cast<half*>(arguments[1]));
  out.SetGlobalBuffer(reinterpret_cast<float*>(arguments[2]));
  DataCopy(a1.Get<half>(), picture, pixels * 16);
  DataCopy(b1.Get<half>(), weights, Nd2NzParams(1, depth, 16, 0, 16, depth, 1, 0));
  SetFlag<HardEvent::MTE2_MTE1>(0);
  WaitFlag<HardEvent::MTE2_MTE1>(0);
  const uint8_t pads[] = {1, 1, 1, 1};
  LoadData(a2.Get<half>(), a1.Get<half>(),
           LoadData3DParamsV2<half>(pads, height, width, 16, depth, pixels, 0, 0, 1, 1, 3, 3, 1, 1, false, false, half(0)));
  LoadData(b2.Get<half>(), b1.Get<half>(), LoadData2DParams(0, uint8_t(depth / 16), 1, 0, 0, true, 0));
  SetFlag<HardEvent::MTE1_M>(0);
  WaitFlag<HardEvent::MTE1_M>(0);
  Mmad(co1.Get<float>(), a2.Get<half>(), b2.Get<half>(), MmadParams(pixels, 16, depth, 0, false, true));
  SetFlag<HardEvent::M_FIX>(0);
  WaitFlag<HardEvent::M_FIX>(0);
  Fixpipe(out, co1.Get<float>(), FixpipeParamsV220(16, pixels, rows, 16, false));
}
