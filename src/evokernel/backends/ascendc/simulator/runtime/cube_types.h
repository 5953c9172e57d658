// Parameters and modes of the cube instructions.
#pragma once
#include "types.h"

enum QuantMode_t {
  NoQuant = 0,
  F322F16 = 1,
  VREQ8 = 2,
  REQ8 = 3,
  VDEQF16 = 4,
  DEQF16 = 5,
  F322BF16 = 16,
  VQF322B8_PRE = 23,
  QF322B8_PRE = 24
};

namespace AscendC {

struct Nd2NzParams {  // rows of a matrix in global memory to strips of 32 bytes in L1
  uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0,
           dstNzMatrixStride = 0;
  Nd2NzParams() {}
  Nd2NzParams(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t fromMatrix, uint16_t fromRow, uint16_t toStrip, uint16_t toRow,
              uint16_t toMatrix)
      : ndNum(matrices),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(fromMatrix),
        srcDValue(fromRow),
        dstNzC0Stride(toStrip),
        dstNzNStride(toRow),
        dstNzMatrixStride(toMatrix) {}
};
struct LoadData2DParams {
  uint16_t startIndex = 0, dstGap = 0, srcStride = 0;
  bool ifTranspose = false;
  uint8_t repeatTimes = 0, sid = 0, addrMode = 0;
  LoadData2DParams() {}
  LoadData2DParams(uint16_t start, uint8_t repeats, uint16_t from, uint8_t id, uint16_t gap, bool transpose, uint8_t mode)
      : startIndex(start), dstGap(gap), srcStride(from), ifTranspose(transpose), repeatTimes(repeats), sid(id), addrMode(mode) {}
};
using LoadData2dParams = LoadData2DParams;
struct LoadData2dTransposeParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
  uint8_t addrMode = 0;
  LoadData2dTransposeParams() {}
  LoadData2dTransposeParams(uint16_t start, uint8_t repeats, uint16_t from, uint16_t gap, uint16_t fractalGap, uint8_t mode = 0)
      : startIndex(start), repeatTimes(repeats), srcStride(from), dstGap(gap), dstFracGap(fractalGap), addrMode(mode) {}
};
template <typename T> struct LoadData3DParamsV2 {
  uint8_t padList[4] = {};
  uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
  uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
  bool enTranspose = false, enSmallK = false;
  T padValue = T(0);
  bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
  LoadData3DParamsV2() {}
  LoadData3DParamsV2(const uint8_t pads[4], uint16_t height, uint16_t width, uint16_t channels, uint16_t kLength, uint16_t mLength,
                     uint16_t kStart, uint16_t mStart, uint8_t wStride, uint8_t hStride, uint8_t wFilter, uint8_t hFilter,
                     uint8_t wDilation, uint8_t hDilation, bool transpose, bool smallK, T value, bool wLarge = false, bool hLarge = false,
                     bool control = false)
      : l1H(height),
        l1W(width),
        channelSize(channels),
        kExtension(kLength),
        mExtension(mLength),
        kStartPt(kStart),
        mStartPt(mStart),
        strideW(wStride),
        strideH(hStride),
        filterW(wFilter),
        filterH(hFilter),
        dilationFilterW(wDilation),
        dilationFilterH(hDilation),
        enTranspose(transpose),
        enSmallK(smallK),
        padValue(value),
        filterSizeW(wLarge),
        filterSizeH(hLarge),
        fMatrixCtrl(control) {
    for (int i = 0; i < 4; i++) padList[i] = pads[i];
  }
};
struct MmadParams {
  uint16_t m = 0, n = 0, k = 0;
  bool isBias = false;
  int32_t fmOffset = 0;
  bool enSsparse = false, enWinogradA = false, enWinogradB = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
  MmadParams() {}
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, bool bias, int32_t offset, bool sparse, bool winogradA, bool winogradB)
      : m(rows), n(columns), k(depth), isBias(bias), fmOffset(offset), enSsparse(sparse), enWinogradA(winogradA), enWinogradB(winogradB) {}
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, uint8_t flag, bool fromBias, bool fromZero)
      : m(rows), n(columns), k(depth), unitFlag(flag), cmatrixSource(fromBias), cmatrixInitVal(fromZero) {}
};
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
  bool isToUB = false;
  constexpr FixpipeConfig(CO2Layout given) : format(given) {}
  constexpr FixpipeConfig(CO2Layout given, bool toUB) : format(given), isToUB(toUB) {}
};
constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ}, CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR}, CFG_COLUMN_MAJOR{CO2Layout::COLUMN_MAJOR};
struct FixpipeParamsV220 {
  uint16_t nSize = 0, mSize = 0, srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
  FixpipeParamsV220() {}
  FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t from, uint32_t to, bool relu)
      : nSize(columns), mSize(rows), srcStride(from), dstStride(to), reluEn(relu) {}
  FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t from, uint32_t to, bool relu, QuantMode_t quant, int64_t scale,
                    uint16_t matrices, uint16_t fromMatrix, uint16_t toMatrix, uint8_t flag, bool split = false)
      : nSize(columns),
        mSize(rows),
        srcStride(from),
        dstStride(to),
        quantPre(quant),
        deqScalar(uint64_t(scale)),
        ndNum(matrices),
        srcNdStride(fromMatrix),
        dstNdStride(toMatrix),
        reluEn(relu),
        unitFlag(flag),
        isChannelSplit(split) {}
};
struct DataCopyCO12DstParams {
  uint8_t sid = 0;
  uint16_t nSize = 0, mSize = 0;
  uint32_t dstStride = 0;
  uint16_t srcStride = 0;
  uint8_t unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint8_t reluPre = 0;
  bool channelSplit = false, nz2ndEn = false;
  DataCopyCO12DstParams() {}
  DataCopyCO12DstParams(uint16_t columns, uint16_t rows, uint32_t to, uint16_t from, QuantMode_t quant, uint8_t relu, bool split,
                        bool toRows)
      : nSize(columns), mSize(rows), dstStride(to), srcStride(from), quantPre(quant), reluPre(relu), channelSplit(split), nz2ndEn(toRows) {}
};
template <typename T> struct InitConstValueParams {
  uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
  T initValue = T(0);
  InitConstValueParams() {}
  InitConstValueParams(uint16_t repeats, uint16_t blocks, uint16_t gap, T value)
      : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value) {}
  InitConstValueParams(uint16_t repeats, T value) : repeatTimes(repeats), initValue(value) {}
};
enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };
enum class HF32Mode { DISABLE, ENABLE };
enum class HF32TransMode { DISABLE, ENABLE };

}  // namespace AscendC
