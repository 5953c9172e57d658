// Casts with a scale in a register, for quantised numbers.
#pragma once
#include "fused.h"
#include "scale.h"

namespace AscendC {

constexpr int32_t VDEQ_TENSOR_SIZE = 16;
struct VdeqInfo {
  float vdeqScale[VDEQ_TENSOR_SIZE] = {0};
  int16_t vdeqOffset[VDEQ_TENSOR_SIZE] = {0};
  bool vdeqSignMode[VDEQ_TENSOR_SIZE] = {0};
  VdeqInfo() {}
  VdeqInfo(const float scales[VDEQ_TENSOR_SIZE], const int16_t offsets[VDEQ_TENSOR_SIZE], const bool signs[VDEQ_TENSOR_SIZE]) {
    for (int i = 0; i < VDEQ_TENSOR_SIZE; i++) {
      vdeqScale[i] = scales[i];
      vdeqOffset[i] = offsets[i];
      vdeqSignMode[i] = signs[i];
    }
  }
};

}  // namespace AscendC

namespace simulator {

template <typename T> inline T scaled(int16_t x, const Scale& by) {
  double value = wholeNumber(double(x) * double(by.scale), RoundMode::CAST_RINT) + by.offset;
  if (by.isSigned != std::is_signed<T>::value)
    reportViolation("E-DTYPE", "CastDeq: signMode of SetDeqScale selects %s, but the destination is %s", by.isSigned ? "int8_t" : "uint8_t", typeName<T>());
  return saturated<T>(value);
}

// 16 numbers of 16 bits fill half a block: the lower or the upper half.
template <typename T>
inline void castDeq(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<int16_t>& src, const Work& work, Stride to, Stride from,
                    bool isVector, bool upper, const char* what) {
  constexpr int width = 128, perBlock = 16;
  vectorCost(256ull * uint64_t(work.repeats), 1);
  lanesOperand(src, work, from, false, what);
  Scale scales[perBlock];
  for (Scale& scale : scales) scale = {core->registers.deqScale, core->registers.deqOffset, core->registers.deqSigned};
  if (isVector) {
    core->reads(core->registers.deqTable, 128, what);
    for (int i = 0; i < perBlock; i++) {
      uint64_t packed;
      memcpy(&packed, core->local + core->registers.deqTable + i * 8, 8);
      scales[i] = Scale::from(packed);
    }
  }
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++) {
      if (!work.of(r).on(lane)) continue;
      AscendC::LocalTensor<T> part = dst;
      part.address += (uint32_t(r) * to.repeat + uint32_t(lane / perBlock) * to.block) * BLOCK + uint32_t(upper ? 16 : 0) + uint32_t(lane % perBlock);
      target(V, part, 1, what, 1);
      *part.data() = scaled<T>(src.data()[element<int16_t>(r, lane, from)], scales[lane % perBlock]);
    }
}
template <typename T, typename U> constexpr bool dequantised =
    (Kind<U>::i16 && (std::is_same<T, int8_t>::value || std::is_same<T, uint8_t>::value)) || (Kind<U>::i32 && Kind<T>::f16);

}  // namespace simulator

namespace AscendC {

inline void SetDeqScale(half scale) { simulator::core->registers.deqScale = float(scale); }
inline void SetDeqScale(float scale, int16_t offset, bool signMode) {
  simulator::core->registers.deqScale = scale;
  simulator::core->registers.deqOffset = offset;
  simulator::core->registers.deqSigned = signMode;
}
template <typename T> inline void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& vdeqInfo) {
  for (int i = 0; i < VDEQ_TENSOR_SIZE; i++)
    vdeq.SetValue(i, T(simulator::Scale{vdeqInfo.vdeqScale[i], vdeqInfo.vdeqOffset[i], vdeqInfo.vdeqSignMode[i]}.packed()));
  simulator::core->registers.deqTable = vdeq.address;
}

template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>
inline void CastDeq(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint32_t count) {
  simulator::takes<simulator::dequantised<T, U>, U>("CastDeq");
  if constexpr (std::is_same<U, int32_t>::value) {
    Cast(dst, src, RoundMode::CAST_RINT, count);
  } else {
    simulator::forgetMask();
    if (simulator::nothing(count, "CastDeq")) return;
    simulator::castDeq(dst, src, simulator::workOf({simulator::Mask(), count, true}, 1, 128, "CastDeq"), {1, 8}, {1, 8}, isVecDeq, halfBlock, "CastDeq");
  }
}
template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
inline void CastDeq(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask, uint8_t repeatTime,
                    const UnaryRepeatParams& by) {
  simulator::takes<simulator::dequantised<T, U>, U>("CastDeq");
  if constexpr (std::is_same<U, int32_t>::value)
    Cast<T, U, isSetMask>(dst, src, RoundMode::CAST_RINT, uint64_t(mask), repeatTime, by);
  else
    simulator::castDeq(dst, src, simulator::workOf(simulator::maskOf<U, isSetMask>(uint64_t(mask), "CastDeq"), repeatTime, 128, "CastDeq"),
                  {by.dstBlkStride, by.dstRepStride},
                  {by.srcBlkStride, by.srcRepStride}, isVecDeq, halfBlock, "CastDeq");
}
template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
inline void CastDeq(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[], uint8_t repeatTime,
                    const UnaryRepeatParams& by) {
  simulator::takes<simulator::dequantised<T, U>, U>("CastDeq");
  if constexpr (std::is_same<U, int32_t>::value)
    Cast<T, U, isSetMask>(dst, src, RoundMode::CAST_RINT, mask, repeatTime, by);
  else
    simulator::castDeq(dst, src, simulator::workOf(simulator::maskOf<U, isSetMask>(mask, "CastDeq"), repeatTime, 128, "CastDeq"),
                  {by.dstBlkStride, by.dstRepStride},
                  {by.srcBlkStride, by.srcRepStride}, isVecDeq, halfBlock, "CastDeq");
}

// max(0, (src0 + src1) * scale), from int32_t to half.
inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0, const LocalTensor<int32_t>& src1,
                       const int32_t& count) {
  const float scale = simulator::core->registers.deqScale;
  simulator::binary("AddDeqRelu", dst, src0, src1, count, 0, [scale](int32_t x, int32_t y) { return half(std::max(0.0f, float(x + y) * scale)); });
}
template <bool isSetMask = true>
inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0, const LocalTensor<int32_t>& src1, uint64_t mask,
                       const uint8_t repeatTime, const BinaryRepeatParams& by) {
  const float scale = simulator::core->registers.deqScale;
  simulator::binaryRepeat("AddDeqRelu", dst, src0, src1, simulator::maskOf<int32_t, isSetMask>(mask, "AddDeqRelu"), repeatTime, by, 0,
                     [scale](int32_t x, int32_t y) { return half(std::max(0.0f, float(x + y) * scale)); });
}
template <bool isSetMask = true>
inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0, const LocalTensor<int32_t>& src1, uint64_t mask[],
                       const uint8_t repeatTime, const BinaryRepeatParams& by) {
  const float scale = simulator::core->registers.deqScale;
  simulator::binaryRepeat("AddDeqRelu", dst, src0, src1, simulator::maskOf<int32_t, isSetMask>(mask, "AddDeqRelu"), repeatTime, by, 0,
                     [scale](int32_t x, int32_t y) { return half(std::max(0.0f, float(x + y) * scale)); });
}

}  // namespace AscendC
