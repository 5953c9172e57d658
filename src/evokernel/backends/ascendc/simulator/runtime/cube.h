// The instructions of the cube. Matrices consist of fractals of 512 bytes: 16 rows of 32 bytes. L0A stores them row by row of fractals (zZ),
// L0B likewise with transposed fractals (nZ), L0C in strips of 16 columns (NZ).
#pragma once
#include "cube_types.h"
#include "doubt.h"
#include "matrices.h"
#include "queues.h"

namespace simulator {

constexpr uint32_t FRACTAL = 512;

inline void onCube(const char* what) {
  if (!core->isCube) reportViolation("E-CUBE-CORE", "%s runs on a vector core, which has no cube", what);
}
inline void loadCost(int pipe, uint64_t bytes) { core->issue(pipe, 20 + double(bytes) / chip().l1_to_l0_bytes_per_cycle, 20); }

// The memory of one fractal, anywhere in a tensor.
template <typename T> inline AscendC::LocalTensor<T> shifted(const AscendC::LocalTensor<T>& tensor, int64_t bytes) {
  AscendC::LocalTensor<T> part = tensor;
  part.address = uint32_t(int64_t(tensor.address) + bytes);
  return part;
}

// ---- global memory to L1, row by row into strips

// One matrix of the copy. As in the library's own copies, a row takes a minimum of cycles, and rows at odd addresses are slow.
template <typename T>
inline Traffic matrixTraffic(const AscendC::GlobalTensor<T>& src, const AscendC::Nd2NzParams& by, int64_t matrix) {
  const Chip& c = chip();
  uint64_t length = uint64_t(by.dValue) * sizeof(T), pitch = uint64_t(by.srcDValue) * sizeof(T);
  Traffic rows = src.rows(by.nValue, length, pitch - length);
  rows.offset += uint64_t(matrix) * by.srcNdMatrixStride * sizeof(T);
  bool isAligned = rows.offset % BLOCK == 0 && (by.nValue == 1 || pitch % BLOCK == 0);
  rows.rowCycles = std::max(c.matmul_row, double(length) / (isAligned ? c.matmul_bytes_per_cycle : c.matmul_odd_bytes_per_cycle));
  return rows;
}

template <typename T>
inline void nd2nz(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, const AscendC::Nd2NzParams& by) {
  const char* what = "DataCopy ND to NZ";
  constexpr int64_t STRIP = BLOCK / sizeof(T);
  if (by.nValue == 0 || by.nValue > 16384) reportViolation("E-CUBE-PARAMS", "%s: nValue %u is outside 1..16384", what, by.nValue);
  if (!by.ndNum || !by.dValue) endRun("E-CUBE-PARAMS", "%s: ndNum is %u and dValue is %u; both must be above 0", what, by.ndNum, by.dValue);
  int64_t strips = (by.dValue + STRIP - 1) / STRIP;
  for (int64_t matrix = 0; matrix < by.ndNum; matrix++) {
    core->move(MTE2, matrixTraffic(src, by, matrix));
    for (int64_t row = 0; row < by.nValue; row++)
      src.check((matrix * by.srcNdMatrixStride + row * by.srcDValue) * int64_t(sizeof(T)), uint64_t(by.dValue) * sizeof(T), what);
    int64_t together = by.dstNzNStride == 1 ? by.nValue : 1;  // rows of a strip that follow each other
    auto first = [&](int64_t strip) { return matrix * by.dstNzMatrixStride + strip * by.dstNzC0Stride * STRIP; };
    for (int64_t strip = 0; strip < strips; strip++)
      for (int64_t row = 0; row < by.nValue; row += together)
        target(MTE2, shifted(dst, (first(strip) + row * by.dstNzNStride * STRIP) * int64_t(sizeof(T))), uint64_t(together) * BLOCK, what);
    if (isDry()) continue;
    for (int64_t row = 0; row < by.nValue; row++) {
      const T* from = src.data() + matrix * by.srcNdMatrixStride + row * by.srcDValue;
      for (int64_t strip = 0; strip < strips; strip++, from += STRIP) {
        T* to = dst.data() + first(strip) + row * by.dstNzNStride * STRIP;
        int64_t inside = std::min(STRIP, by.dValue - strip * STRIP);
        if (inside == STRIP) memcpy(to, from, BLOCK);
        else std::copy(from, from + inside, to), std::fill(to + inside, to + STRIP, T(0));
      }
    }
  }
}

// ---- L1 to L0A and L0B

template <typename T> inline void copyFractal(T* to, const T* from, bool turned) {
  if (!turned || isAllZero(from, FRACTAL)) {
    memcpy(to, from, FRACTAL);
    return;
  }
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 16; column++) to[column * 16 + row] = from[row * 16 + column];
}

template <typename T>
inline void loadFractals(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LoadData2DParams& by) {
  const char* what = "LoadData";
  onCube(what);
  if (!by.repeatTimes) reportViolation("E-CUBE-PARAMS", "%s: repeatTimes 0 is outside 1..255", what);
  if (by.ifTranspose && sizeof(T) != 2)
    reportViolation("E-DTYPE", "%s transposes fractals of two-byte types only, not of %s: use LoadDataWithTranspose", what, typeName<T>());
  loadCost(MTE1, uint64_t(by.repeatTimes) * FRACTAL);
  int64_t direction = by.addrMode ? -1 : 1;
  for (int64_t i = 0; i < by.repeatTimes; i++) {
    auto from = shifted(src, (int64_t(by.startIndex) + direction * i * by.srcStride) * FRACTAL);
    auto to = shifted(dst, i * (int64_t(by.dstGap) + 1) * FRACTAL);
    bool isTurned = by.ifTranspose && sizeof(T) == 2;
    bool inDoubt = Doubt().finds(MTE1, from, FRACTAL, what, BLOCK);  // rows behind the end of a matrix, which Mmad leaves out
    target(MTE1, to, FRACTAL, what, FRACTAL);
    if (inDoubt) copyFractal(reinterpret_cast<T*>(core->known + to.address), reinterpret_cast<const T*>(core->known + from.address), isTurned);
    if (isDry()) continue;
    copyFractal(to.data(), from.data(), isTurned);
  }
}
template <typename T>
inline void loadFractals(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, const AscendC::LoadData2DParams& by) {
  const char* what = "LoadData";
  onCube(what);
  Traffic fractals = src.rows(by.repeatTimes, FRACTAL, uint64_t(by.srcStride) * FRACTAL - FRACTAL);
  fractals.offset += uint64_t(by.startIndex) * FRACTAL;
  core->move(MTE2, fractals);
  for (int64_t i = 0; i < by.repeatTimes; i++) {
    int64_t skip = (int64_t(by.startIndex) + i * by.srcStride) * FRACTAL;
    src.check(skip, FRACTAL, what);
    auto to = shifted(dst, i * (int64_t(by.dstGap) + 1) * FRACTAL);
    target(MTE2, to, FRACTAL, what);
    if (isDry()) continue;
    memcpy(to.data(), reinterpret_cast<const uint8_t*>(src.data()) + skip, FRACTAL);
  }
}

// The transposed square of SIDE rows, one fractal or two next to each other, into one fractal or two.
template <typename T> inline void turnSquare(T* const* parts, const T* from) {
  constexpr int COUNT = sizeof(T) == 2 ? 1 : 2, SIDE = sizeof(T) == 1 ? 32 : 16, WIDTH = int(BLOCK / sizeof(T));
  if (isAllZero(from, FRACTAL * COUNT)) {
    for (int part = 0; part < COUNT; part++) memset(static_cast<void*>(parts[part]), 0, FRACTAL);
    return;
  }
  if constexpr (sizeof(T) == 4) {
    turnSquare(reinterpret_cast<uint32_t*>(parts[0]), reinterpret_cast<uint32_t*>(parts[1]), reinterpret_cast<const uint32_t*>(from));
    return;
  }
  for (int row = 0; row < SIDE; row++)
    for (int column = 0; column < SIDE; column++) parts[column / 16][column % 16 * WIDTH + row] = from[row * WIDTH + column];
}

// Transposes squares of 16 x 16 elements of two or four bytes, or 32 x 32 elements of one byte. A square is one fractal or two.
template <typename T>
inline void loadTurned(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                       const AscendC::LoadData2dTransposeParams& by) {
  const char* what = "LoadDataWithTranspose";
  onCube(what);
  constexpr int PARTS = sizeof(T) == 2 ? 1 : 2, SIDE = sizeof(T) == 1 ? 32 : 16, WIDTH = int(BLOCK / sizeof(T));
  if (!by.repeatTimes) reportViolation("E-CUBE-PARAMS", "%s: repeatTimes 0 is outside 1..255", what);
  loadCost(MTE1, uint64_t(by.repeatTimes) * FRACTAL * PARTS);
  int64_t square = FRACTAL * PARTS;
  for (int64_t i = 0; i < by.repeatTimes; i++) {
    auto from = shifted(src, (int64_t(by.startIndex) + i * by.srcStride) * square);
    source(MTE1, from, uint64_t(square), what);
    for (int part = 0; part < PARTS; part++) {
      auto to = shifted(dst, i * (int64_t(by.dstGap) + 1) * FRACTAL + part * (int64_t(by.dstFracGap) + 1) * FRACTAL);
      target(MTE1, to, FRACTAL, what, FRACTAL);
    }
    if (isDry()) continue;
    T* parts[PARTS];
    for (int part = 0; part < PARTS; part++)
      parts[part] = shifted(dst, i * (int64_t(by.dstGap) + 1) * FRACTAL + part * (int64_t(by.dstFracGap) + 1) * FRACTAL).data();
    turnSquare(parts, from.data());
  }
}

// An image in L1 ([channels / C0][height][width][C0]) as the matrix of a convolution: one row per output pixel, one column per weight.
template <typename T>
inline void loadPicture(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LoadData3DParamsV2<T>& by) {
  const char* what = "LoadData (3D)";
  onCube(what);
  constexpr int64_t C0 = BLOCK / sizeof(T);
  if (spaceOf(dst.address) != L0A) endRun("E-UNSUPPORTED", "LoadData with LoadData3DParamsV2 supports only A2 as the destination");
  if (!by.mExtension || !by.kExtension || by.kExtension % C0 || by.kStartPt % C0)
    endRun("E-CUBE-PARAMS", "%s: mExtension is %u and kExtension is %u from position %u; along k they must be multiples of %lld", what, by.mExtension, by.kExtension,
         by.kStartPt, (long long)C0);
  int64_t left = by.padList[0], right = by.padList[1], above = by.padList[2];
  int64_t widthOut = (by.l1W + left + right - by.dilationFilterW * (by.filterW - 1) - 1) / by.strideW + 1;
  int64_t blocksK = by.kExtension / C0, taps = int64_t(by.filterW) * by.filterH;
  loadCost(MTE1, uint64_t(roundUp(by.mExtension, 16) * by.kExtension) * sizeof(T));
  target(MTE1, dst, uint64_t(roundUp(by.mExtension, 16) * by.kExtension) * sizeof(T), what, FRACTAL);
  source(MTE1, src, uint64_t(by.l1H) * by.l1W * uint64_t(roundUp(by.channelSize, C0)) * sizeof(T), what);
  if (isDry()) return;
  for (int64_t m = 0; m < by.mExtension; m++)
    for (int64_t k = 0; k < by.kExtension; k++) {
      int64_t pixel = by.mStartPt + m, weight = by.kStartPt + k, tap = weight / C0 % taps, strip = weight / C0 / taps;
      int64_t y = pixel / widthOut * by.strideH + tap / by.filterW * by.dilationFilterH - above;
      int64_t x = pixel % widthOut * by.strideW + tap % by.filterW * by.dilationFilterW - left;
      bool inside = y >= 0 && y < by.l1H && x >= 0 && x < by.l1W && strip * C0 < roundUp(by.channelSize, C0);
      T value = inside ? src.data()[((strip * by.l1H + y) * by.l1W + x) * C0 + weight % C0] : by.padValue;
      dst.data()[(m / 16 * blocksK + k / C0) * 16 * C0 + m % 16 * C0 + k % C0] = value;
    }
}

}  // namespace simulator

#include "cube_products.h"
