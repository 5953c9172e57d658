// Matrix products of the cube, the output of L0C, and the public overloads of the cube instructions.
#pragma once

namespace simulator {

// ---- L0A times L0B into L0C

template <int64_t STRIP> struct LeftAt {  // zZ
  int64_t blocks;
  bool single;  // one row, stored without fractals
  int64_t at(int64_t m, int64_t k) const { return single ? k : (m / 16 * blocks + k / STRIP) * 16 * STRIP + m % 16 * STRIP + k % STRIP; }
};
template <int64_t STRIP> struct RightAt {  // nZ
  int64_t blocks;
  int64_t at(int64_t k, int64_t n) const { return (k / STRIP * blocks + n / 16) * 16 * STRIP + n % 16 * STRIP + k % STRIP; }
};

template <typename A, typename S, int64_t STRIP>
inline void packLeft(const A* left, const LeftAt<STRIP>& at, S* to, int64_t m, int64_t from, int64_t depth) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t x = 0; x < depth; x += STRIP) {  // every part of a product starts at a strip
      const A* strip = left + at.at(i, from + x);
      S* row = to + i * depth + x;
      if (x + STRIP <= depth)
        for (int64_t t = 0; t < STRIP; t++) row[t] = S(strip[t]);
      else
        for (int64_t t = 0; t < depth - x; t++) row[t] = S(strip[t]);
    }
}
template <typename B, typename S, int64_t STRIP>
inline void packRight(const B* right, const RightAt<STRIP>& at, S* to, int64_t n, int64_t from, int64_t depth) {
  static_assert(PACK_COLUMNS == 16, "a panel has as many columns as a fractal");
  for (int64_t j = 0; j < n; j += 16)
    for (int64_t x = 0; x < depth; x += STRIP) {
      const B* fractal = right + at.at(from + x, j);
      S* panel = to + j * depth + x * PACK_COLUMNS;
      int64_t inside = std::min(STRIP, depth - x), columns = std::min<int64_t>(16, n - j);
      if (columns < 16) {
        for (int64_t t = 0; t < inside; t++)
          for (int64_t column = 0; column < columns; column++) panel[t * PACK_COLUMNS + column] = S(fractal[column * STRIP + t]);
        continue;
      }
      for (int64_t t = 0; t < inside; t++)
        for (int64_t column = 0; column < 16; column++) panel[t * PACK_COLUMNS + column] = S(fractal[column * STRIP + t]);
    }
}

template <typename U> inline bool isFinite(const U* values, uint64_t count) {
  if constexpr (sizeof(U) == 4) return isFinite(reinterpret_cast<const uint32_t*>(values), count, 0x7f800000u);
  else if constexpr (sizeof(U) == 2) return isFinite(reinterpret_cast<const uint16_t*>(values), count, uint16_t(Kind<U>::bf16 ? 0x7f80 : 0x7c00));
  else return true;
}
// Zeros times finite numbers.
template <typename U, typename S> inline bool addsNothing(const U* left, uint64_t leftCount, const S* right, uint64_t rightCount) {
  if (isAllZero(left, leftCount * sizeof(U))) return isFinite(right, rightCount);
  return isAllZero(right, rightCount * sizeof(S)) && isFinite(left, leftCount);
}

template <typename T, typename U, typename S> constexpr bool multipliable() {
  if (std::is_same<T, int32_t>::value) return std::is_same<U, int8_t>::value && std::is_same<S, int8_t>::value;
  return std::is_same<T, float>::value && std::is_same<U, S>::value && (Kind<U>::floats || Kind<U>::bf16);
}

// A factor of Mmad. Only the elements that are multiplied must be initialized, not the rest of their fractals.
template <typename T, typename At>
inline void factorOperand(const AscendC::LocalTensor<T>& tensor, uint64_t bytes, const At& at, int64_t rows, int64_t columns, const char* what) {
  if (!Doubt().finds(M, tensor, bytes, what, FRACTAL)) return;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      if (!isKnown(tensor, uint64_t(at.at(i, j)))) return source(M, tensor, bytes, what, FRACTAL);
}

template <typename T, typename U, typename S>
inline void multiplyAdd(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& left, const AscendC::LocalTensor<S>& right,
                        const T* bias, bool fromZero, const AscendC::MmadParams& by) {
  const char* what = "Mmad";
  onCube(what);
  if (!multipliable<T, U, S>()) endRun("E-DTYPE", "Mmad does not support %s x %s with a result of %s", typeName<U>(), typeName<S>(), typeName<T>());
  if (!by.m || !by.n || !by.k || by.m > 4095 || by.n > 4095 || by.k > 4095)
    endRun("E-CUBE-PARAMS", "Mmad: %u x %u x %u is outside 1..4095", by.m, by.n, by.k);
  constexpr int64_t STRIP = BLOCK / sizeof(U);
  int64_t rows = roundUp(by.m, 16), columns = roundUp(by.n, 16), depth = roundUp(by.k, by.kDirectionAlign ? std::max<int64_t>(16, STRIP) : STRIP);
  bool single = by.m == 1;
  double rate = chip().macs(sizeof(U));
  core->issue(M, 16 + double(rows) * double(columns) * double(depth) / rate, 16);
  core->counts.macs += uint64_t(by.m) * by.n * by.k;
  LeftAt<STRIP> leftAt{depth / STRIP, single};
  RightAt<STRIP> rightAt{columns / 16};
  uint64_t leftCount = uint64_t(single ? by.k : rows * depth), rightCount = uint64_t(columns * roundUp(by.k, STRIP));
  factorOperand(left, leftCount * sizeof(U), leftAt, by.m, by.k, what);
  factorOperand(right, rightCount * sizeof(S), rightAt, by.k, by.n, what);
  uint64_t resultBytes = uint64_t(rows * columns) * sizeof(T);
  if (!fromZero && !bias) source(M, dst, resultBytes, what, 64);
  target(M, dst, resultBytes, what, 64);
  if (isDry()) return;
  bool isNothing = addsNothing(left.data(), leftCount, right.data(), rightCount);
  static thread_local std::vector<T> sums;
  int64_t wide = packedColumns(by.n);
  if (!isNothing) {
    sums.assign(size_t(packedRows(by.m) * wide), T(0));
    product(left.data(), leftAt, right.data(), rightAt, sums.data(), by.m, by.n, by.k);
  }
  for (int64_t strip = 0; strip < columns; strip += 16) {
    T* to = dst.data() + strip * rows;
    int64_t inside = std::min<int64_t>(16, by.n - strip);
    if (bias)
      for (int64_t m = 0; m < by.m; m++) std::copy(bias + strip, bias + strip + inside, to + m * 16);
    else if (fromZero)
      memset(to, 0, size_t(by.m) * 16 * sizeof(T));
    if (!isNothing) addStrip(to, sums.data() + strip, by.m, wide);
    memset(to + by.m * 16, 0, size_t(rows - by.m) * 16 * sizeof(T));
    for (int64_t m = 0; inside < 16 && m < by.m; m++) std::fill(to + m * 16 + inside, to + m * 16 + 16, T(0));
  }
}

// ---- output of L0C

template <typename D, typename U> struct Leaving {  // the conversion of a number in Fixpipe
  QuantMode_t mode;
  Scale scale;
  const uint64_t* scales;  // one per column
  bool relu;

  void check(const char* what) const {
    constexpr bool toByte = std::is_same<D, int8_t>::value || std::is_same<D, uint8_t>::value;
    bool fits = false;
    if (mode == NoQuant) fits = std::is_same<D, U>::value;
    if (mode == F322F16) fits = Kind<D>::f16 && Kind<U>::f32;
    if (mode == F322BF16) fits = Kind<D>::bf16 && Kind<U>::f32;
    if (mode == DEQF16 || mode == VDEQF16) fits = Kind<D>::f16 && Kind<U>::i32;
    if (mode == QF322B8_PRE || mode == VQF322B8_PRE) fits = toByte && Kind<U>::f32;
    if (mode == REQ8 || mode == VREQ8) fits = toByte && Kind<U>::i32;
    if (!fits) reportViolation("E-CUBE-QUANT", "%s: quantPre %d does not convert %s to %s", what, int(mode), typeName<U>(), typeName<D>());
    bool perColumn = mode == VDEQF16 || mode == VQF322B8_PRE || mode == VREQ8;
    if (perColumn && !scales) endRun("E-CUBE-QUANT", "%s: quantPre %d needs one scale per column, in a tensor", what, int(mode));
  }
  D operator()(U number, int64_t column) const {
    bool isPlain = mode == NoQuant || mode == F322F16 || mode == F322BF16;
    if (relu && number < U(0)) number = U(0);
    if (isPlain) return D(number);
    return (scales ? Scale::ofOutput(scales[column]) : scale).template convert<D>(number);
  }
  void convertRow(D* to, const U* from, int64_t count, int64_t pitch) const {  // 16 columns of a row are together
    bool isPlain = mode == NoQuant || mode == F322F16 || mode == F322BF16;
    for (int64_t n = 0; n < count; n += 16, from += pitch) {
      int64_t columns = std::min<int64_t>(16, count - n);
      if (isPlain && !relu && columns == 16)
        for (int64_t i = 0; i < 16; i++) to[n + i] = D(from[i]);
      else
        for (int64_t i = 0; i < columns; i++) to[n + i] = (*this)(from[i], n + i);
    }
  }
};

// Processes the result row by row: `write` stores a contiguous range of a row.
template <typename D, typename U, typename W>
inline void leave(const AscendC::LocalTensor<U>& src, const AscendC::FixpipeParamsV220& by, bool strips, int64_t strip,
                  const uint64_t* scales, const char* what, W write) {
  onCube(what);
  if (!by.nSize || !by.mSize) endRun("E-CUBE-PARAMS", "%s: mSize is %u and nSize is %u; both must be above 0", what, by.mSize, by.nSize);
  if (by.srcStride < by.mSize) reportViolation("E-CUBE-PARAMS", "%s: srcStride %u is smaller than mSize, which is %u rows", what, by.srcStride, by.mSize);
  Leaving<D, U> leaving{by.quantPre, Scale::ofOutput(by.deqScalar), scales, by.reluEn};
  leaving.check(what);
  if (by.unitFlag) {  // the cube signals the completion of a result
    Event done;
    core->raise(done, M);
    core->wait(done, FIX);
  }
  int64_t matrices = strips ? 1 : std::max<int64_t>(by.ndNum, 1);
  core->move(FIX, double(matrices) * by.mSize * by.nSize * sizeof(D));
  std::vector<D> row(static_cast<size_t>(roundUp(by.nSize, strip)));
  for (int64_t matrix = 0; matrix < matrices; matrix++) {
    auto from = shifted(src, matrix * by.srcNdStride * 1024);
    uint64_t last = uint64_t((by.nSize - 1) / 16 * by.srcStride * 16 + (by.mSize - 1) * 16 + (by.nSize - 1) % 16 + 1);
    source(FIX, from, last * sizeof(U), what, 64);
    for (int64_t m = 0; m < by.mSize; m++) {
      std::fill(row.begin() + by.nSize, row.end(), D(0));
      if (!isDry()) leaving.convertRow(row.data(), from.data() + m * 16, by.nSize, int64_t(by.srcStride) * 16);
      for (int64_t n = 0; strips && n < int64_t(row.size()); n += strip)
        write(n / strip * by.dstStride * int64_t(BLOCK / sizeof(D)) + m * strip, &row[size_t(n)], strip);
      if (!strips) write(matrix * by.dstNdStride + m * by.dstStride, row.data(), by.nSize);
    }
  }
}
template <typename D> inline int64_t outStrip(const AscendC::FixpipeParamsV220& by) {
  return by.isChannelSplit ? 8 : sizeof(D) == 1 ? 32 : 16;
}

template <typename D, typename U>
inline void fixpipe(const AscendC::GlobalTensor<D>& dst, const AscendC::LocalTensor<U>& src, const AscendC::FixpipeParamsV220& by,
                    bool strips, const uint64_t* scales) {
  const char* what = "Fixpipe L0C->GM";
  dst.writes(what);
  leave<D>(src, by, strips, outStrip<D>(by), scales, what, [&](int64_t at, const D* from, int64_t count) {
    dst.check(at * int64_t(sizeof(D)), uint64_t(count) * sizeof(D), what);
    if (core->atomic == Atomic::NONE) dst.receives(at * int64_t(sizeof(D)), from, uint64_t(count) * sizeof(D), what);
    if (dst.stores(at * int64_t(sizeof(D)), uint64_t(count) * sizeof(D))) store(dst.data() + at, from, uint64_t(count) * sizeof(D));
  });
}
template <typename D, typename U>
inline void fixpipe(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<U>& src, const AscendC::FixpipeParamsV220& by,
                    bool strips, const uint64_t* scales) {
  const char* what = "Fixpipe L0C->L1";
  leave<D>(src, by, strips, outStrip<D>(by), scales, what, [&](int64_t at, const D* from, int64_t count) {
    auto part = shifted(dst, at * int64_t(sizeof(D)));
    target(FIX, part, uint64_t(count) * sizeof(D), what);
    memcpy(part.data(), from, uint64_t(count) * sizeof(D));
  });
}

}  // namespace simulator

namespace AscendC {

template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& by) {
  simulator::nd2nz(dst, src, by);
}

template <typename T> inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& by) {
  simulator::loadFractals(dst, src, by);
}
template <typename T> inline void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& by) {
  simulator::loadFractals(dst, src, by);
}
template <typename T> inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<T>& by) {
  simulator::loadPicture(dst, src, by);
}
template <typename T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& by) {
  simulator::loadTurned(dst, src, by);
}

template <typename T, typename U, typename S>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& by) {
  simulator::multiplyAdd<T, U, S>(dst, fm, filter, nullptr, by.cmatrixInitVal && !by.isBias, by);
}
template <typename T, typename U, typename S, typename V>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const LocalTensor<V>& bias,
                 const MmadParams& by) {
  static_assert(std::is_same<T, V>::value, "the bias must have the type of the result");
  if (by.cmatrixInitVal) {
    simulator::multiplyAdd<T, U, S>(dst, fm, filter, nullptr, true, by);
    return;
  }
  simulator::source(simulator::M, bias, uint64_t(by.n) * sizeof(V), "Mmad (bias)", 64);
  simulator::multiplyAdd<T, U, S>(dst, fm, filter, bias.data(), false, by);
}

#define SIMULATOR_FIXPIPE(DESTINATION)                                                                                \
  template <typename T, typename U, const auto& config = CFG_ROW_MAJOR>                                          \
  inline void Fixpipe(const DESTINATION<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& by) {       \
    simulator::fixpipe(dst, src, by, config.format == CO2Layout::NZ, nullptr);                                        \
  }                                                                                                              \
  template <typename T, typename U, const auto& config = CFG_ROW_MAJOR, typename S = uint64_t>                   \
  inline void Fixpipe(const DESTINATION<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace, \
                      const FixpipeParamsV220& by) {                                                             \
    simulator::source(simulator::FIX, cbufWorkspace, uint64_t(by.nSize) * sizeof(S), "Fixpipe (scales)");                  \
    simulator::fixpipe(dst, src, by, config.format == CO2Layout::NZ, cbufWorkspace.data());                           \
  }
SIMULATOR_FIXPIPE(GlobalTensor)
SIMULATOR_FIXPIPE(LocalTensor)
#undef SIMULATOR_FIXPIPE
template <typename T, typename U>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& by) {
  FixpipeParamsV220 params(by.nSize, by.mSize, by.srcStride, by.dstStride, by.reluPre != 0);
  params.quantPre = by.quantPre;
  params.unitFlag = by.unitFlag;
  params.isChannelSplit = by.channelSplit;
  simulator::fixpipe(dst, src, params, !by.nz2ndEn, nullptr);
}

// L1 is filled in blocks of 32 bytes, L0A and L0B in fractals of 512 bytes.
template <typename T> inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& by) {
  const char* what = "InitConstValue";
  bool isL1 = simulator::spaceOf(dst.address) == simulator::L1;
  int pipe = isL1 ? simulator::MTE2 : simulator::MTE1;
  uint64_t each = isL1 ? simulator::BLOCK : simulator::FRACTAL, length = std::max<uint64_t>(by.blockNum, 1) * each;
  simulator::core->issue(pipe, 20 + double(by.repeatTimes) * double(length) / simulator::chip().l1_to_l0_bytes_per_cycle);
  for (int64_t i = 0; i < by.repeatTimes; i++) {
    auto part = simulator::shifted(dst, i * int64_t(length + by.dstGap * each));
    simulator::target(pipe, part, length, what);
    for (uint64_t k = 0; k < length / sizeof(T) && !simulator::isDry(); k++) part.data()[k] = by.initValue;
  }
}
template <typename T> inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<T>& by) { InitConstValue(dst, by); }

// Settings that change neither the results nor, in the simulator, the time.
inline void SetHF32Mode(bool) {}
inline void SetHF32Mode(HF32Mode) {}
inline void SetHF32TransMode(bool) {}
inline void SetHF32TransMode(HF32TransMode) {}
inline void SetMMLayoutTransform(bool) {}
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}

}  // namespace AscendC
