// Tiling structs of the library functions: the tiling functions on the host write them, and the kernel reads them.
// The simulator's library functions use few of the fields. All fields exist, so that host code that sets them compiles.
#pragma once
#include <cstdint>

#define SIMULATOR_FIELD(type, name)                         \
  type name = 0;                                       \
  void set_##name(type value) { this->name = value; }  \
  type get_##name() const { return this->name; }

namespace AscendC {
namespace tiling {

struct TCubeTiling {
  SIMULATOR_FIELD(int32_t, usedCoreNum)
  SIMULATOR_FIELD(int32_t, M)
  SIMULATOR_FIELD(int32_t, N)
  SIMULATOR_FIELD(int32_t, Ka)
  SIMULATOR_FIELD(int32_t, Kb)
  SIMULATOR_FIELD(int32_t, singleCoreM)
  SIMULATOR_FIELD(int32_t, singleCoreN)
  SIMULATOR_FIELD(int32_t, singleCoreK)
  SIMULATOR_FIELD(int32_t, baseM)
  SIMULATOR_FIELD(int32_t, baseN)
  SIMULATOR_FIELD(int32_t, baseK)
  SIMULATOR_FIELD(int32_t, depthA1)
  SIMULATOR_FIELD(int32_t, depthB1)
  SIMULATOR_FIELD(int32_t, stepM)
  SIMULATOR_FIELD(int32_t, stepN)
  SIMULATOR_FIELD(int32_t, isBias)
  SIMULATOR_FIELD(int32_t, transLength)
  SIMULATOR_FIELD(int32_t, iterateOrder)
  SIMULATOR_FIELD(int32_t, shareMode)
  SIMULATOR_FIELD(int32_t, shareL1Size)
  SIMULATOR_FIELD(int32_t, shareL0CSize)
  SIMULATOR_FIELD(int32_t, shareUbSize)
  SIMULATOR_FIELD(int32_t, batchM)
  SIMULATOR_FIELD(int32_t, batchN)
  SIMULATOR_FIELD(int32_t, singleBatchM)
  SIMULATOR_FIELD(int32_t, singleBatchN)
  SIMULATOR_FIELD(int32_t, stepKa)
  SIMULATOR_FIELD(int32_t, stepKb)
  SIMULATOR_FIELD(int32_t, depthAL1CacheUB)
  SIMULATOR_FIELD(int32_t, depthBL1CacheUB)
  SIMULATOR_FIELD(int32_t, dbL0A)
  SIMULATOR_FIELD(int32_t, dbL0B)
  SIMULATOR_FIELD(int32_t, dbL0C)
  SIMULATOR_FIELD(int32_t, ALayoutInfoB)
  SIMULATOR_FIELD(int32_t, ALayoutInfoS)
  SIMULATOR_FIELD(int32_t, ALayoutInfoN)
  SIMULATOR_FIELD(int32_t, ALayoutInfoG)
  SIMULATOR_FIELD(int32_t, ALayoutInfoD)
  SIMULATOR_FIELD(int32_t, BLayoutInfoB)
  SIMULATOR_FIELD(int32_t, BLayoutInfoS)
  SIMULATOR_FIELD(int32_t, BLayoutInfoN)
  SIMULATOR_FIELD(int32_t, BLayoutInfoG)
  SIMULATOR_FIELD(int32_t, BLayoutInfoD)
  SIMULATOR_FIELD(int32_t, CLayoutInfoB)
  SIMULATOR_FIELD(int32_t, CLayoutInfoS1)
  SIMULATOR_FIELD(int32_t, CLayoutInfoN)
  SIMULATOR_FIELD(int32_t, CLayoutInfoG)
  SIMULATOR_FIELD(int32_t, CLayoutInfoS2)
  SIMULATOR_FIELD(int32_t, BatchNum)
  SIMULATOR_FIELD(int32_t, mxTypePara)
};

struct SoftMaxTiling {
  SIMULATOR_FIELD(uint32_t, srcM)
  SIMULATOR_FIELD(uint32_t, srcK)
  SIMULATOR_FIELD(uint32_t, srcSize)
  SIMULATOR_FIELD(uint32_t, outMaxM)
  SIMULATOR_FIELD(uint32_t, outMaxK)
  SIMULATOR_FIELD(uint32_t, outMaxSize)
  SIMULATOR_FIELD(uint32_t, splitM)
  SIMULATOR_FIELD(uint32_t, splitK)
  SIMULATOR_FIELD(uint32_t, splitSize)
  SIMULATOR_FIELD(uint32_t, reduceM)
  SIMULATOR_FIELD(uint32_t, reduceK)
  SIMULATOR_FIELD(uint32_t, reduceSize)
  SIMULATOR_FIELD(uint32_t, rangeM)
  SIMULATOR_FIELD(uint32_t, tailM)
  SIMULATOR_FIELD(uint32_t, tailSplitSize)
  SIMULATOR_FIELD(uint32_t, tailReduceSize)
};

struct LogSoftMaxTiling {
  SIMULATOR_FIELD(uint32_t, srcM)
  SIMULATOR_FIELD(uint32_t, srcK)
  SIMULATOR_FIELD(uint32_t, srcSize)
  SIMULATOR_FIELD(uint32_t, outMaxM)
  SIMULATOR_FIELD(uint32_t, outMaxK)
  SIMULATOR_FIELD(uint32_t, outMaxSize)
  SIMULATOR_FIELD(uint32_t, splitM)
  SIMULATOR_FIELD(uint32_t, splitK)
  SIMULATOR_FIELD(uint32_t, splitSize)
  SIMULATOR_FIELD(uint32_t, reduceM)
  SIMULATOR_FIELD(uint32_t, reduceK)
  SIMULATOR_FIELD(uint32_t, reduceSize)
  SIMULATOR_FIELD(uint32_t, rangeM)
  SIMULATOR_FIELD(uint32_t, tailM)
  SIMULATOR_FIELD(uint32_t, tailSplitSize)
  SIMULATOR_FIELD(uint32_t, tailReduceSize)
};

struct LayerNormTiling {
  SIMULATOR_FIELD(uint32_t, bLength)
  SIMULATOR_FIELD(uint32_t, sLength)
  SIMULATOR_FIELD(uint32_t, hLength)
  SIMULATOR_FIELD(uint32_t, originalHLength)
  SIMULATOR_FIELD(uint32_t, inputXSize)
  SIMULATOR_FIELD(uint32_t, meanVarSize)
  SIMULATOR_FIELD(uint32_t, numberOfTmpBuf)
  SIMULATOR_FIELD(uint32_t, meanTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, meanTmpTensorSize)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorSize)
  SIMULATOR_FIELD(uint32_t, tmpBufSize)
  SIMULATOR_FIELD(uint32_t, oneTmpSize)
  SIMULATOR_FIELD(uint32_t, firstTmpStartPos)
  SIMULATOR_FIELD(uint32_t, secondTmpStartPos)
  SIMULATOR_FIELD(uint32_t, thirdTmpStartPos)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputRoundSize)
  SIMULATOR_FIELD(uint32_t, inputTailSize)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, meanVarRoundSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailPos)
  SIMULATOR_FIELD(uint32_t, bshCurLength)
  SIMULATOR_FIELD(uint32_t, bsCurLength)
  SIMULATOR_FIELD(float, lastDimValueBack)
};

struct LayerNormSeparateTiling {
  SIMULATOR_FIELD(uint32_t, aLength)
  SIMULATOR_FIELD(uint32_t, rLength)
  SIMULATOR_FIELD(uint32_t, halfAddRepeatTimes)
  SIMULATOR_FIELD(uint32_t, rHeadLength)
  SIMULATOR_FIELD(float, k2Rec)
  SIMULATOR_FIELD(float, k2RRec)
  SIMULATOR_FIELD(uint32_t, inputXSize)
  SIMULATOR_FIELD(uint32_t, meanVarSize)
  SIMULATOR_FIELD(uint32_t, numberOfTmpBuf)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorSize)
  SIMULATOR_FIELD(uint32_t, tmpBufSize)
  SIMULATOR_FIELD(uint32_t, oneTmpSize)
  SIMULATOR_FIELD(uint32_t, firstTmpStartPos)
  SIMULATOR_FIELD(uint32_t, secondTmpStartPos)
  SIMULATOR_FIELD(uint32_t, thirdTmpStartPos)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputRoundSize)
  SIMULATOR_FIELD(uint32_t, inputTailSize)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, meanVarRoundSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailPos)
  SIMULATOR_FIELD(uint32_t, arCurLength)
  SIMULATOR_FIELD(uint32_t, aCurLength)
  SIMULATOR_FIELD(float, rValueBack)
};

struct RmsNormTiling {
  SIMULATOR_FIELD(uint32_t, bLength)
  SIMULATOR_FIELD(uint32_t, sLength)
  SIMULATOR_FIELD(uint32_t, hLength)
  SIMULATOR_FIELD(uint32_t, originalHLength)
  SIMULATOR_FIELD(float, reciprocalOfHLength)
  SIMULATOR_FIELD(uint32_t, mainBshLength)
  SIMULATOR_FIELD(uint32_t, mainBsLength)
  SIMULATOR_FIELD(uint32_t, mainBsLengthAlign)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, tailBshLength)
  SIMULATOR_FIELD(uint32_t, tailBsLength)
};

struct BatchNormTiling {
  SIMULATOR_FIELD(uint32_t, originalBLength)
  SIMULATOR_FIELD(uint32_t, meanVarSize)
  SIMULATOR_FIELD(uint32_t, meanTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, tmpBufSize)
  SIMULATOR_FIELD(uint32_t, oneTmpSize)
  SIMULATOR_FIELD(uint32_t, firstTmpStartPos)
  SIMULATOR_FIELD(uint32_t, secondTmpStartPos)
  SIMULATOR_FIELD(uint32_t, thirdTmpStartPos)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputTailSize)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, meanVarTailSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailPos)
  SIMULATOR_FIELD(uint32_t, bshCurLength)
  SIMULATOR_FIELD(uint32_t, shCurLength)
  SIMULATOR_FIELD(float, firstDimValueBack)
  SIMULATOR_FIELD(uint32_t, castHalfRepStride)
  SIMULATOR_FIELD(uint32_t, shCurLengthBlockNum)
  SIMULATOR_FIELD(uint32_t, castHalfOutRepStride)
};

struct GroupNormTiling {
  SIMULATOR_FIELD(uint32_t, n)
  SIMULATOR_FIELD(uint32_t, c)
  SIMULATOR_FIELD(uint32_t, hw)
  SIMULATOR_FIELD(uint32_t, g)
  SIMULATOR_FIELD(uint32_t, d)
  SIMULATOR_FIELD(uint32_t, hwAlignSize)
  SIMULATOR_FIELD(uint32_t, dhwAlignSize)
  SIMULATOR_FIELD(uint32_t, inputXSize)
  SIMULATOR_FIELD(uint32_t, meanVarSize)
  SIMULATOR_FIELD(uint32_t, numberOfTmpBuf)
  SIMULATOR_FIELD(uint32_t, meanTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, meanTmpTensorSize)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, varianceTmpTensorSize)
  SIMULATOR_FIELD(uint32_t, tmpBufSize)
  SIMULATOR_FIELD(uint32_t, oneTmpSize)
  SIMULATOR_FIELD(uint32_t, firstTmpStartPos)
  SIMULATOR_FIELD(uint32_t, secondTmpStartPos)
  SIMULATOR_FIELD(uint32_t, thirdTmpStartPos)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputRoundSize)
  SIMULATOR_FIELD(uint32_t, inputTailSize)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, meanVarRoundSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailSize)
  SIMULATOR_FIELD(uint32_t, meanVarTailPos)
  SIMULATOR_FIELD(uint32_t, bshCurLength)
  SIMULATOR_FIELD(uint32_t, bsCurLength)
  SIMULATOR_FIELD(float, factor)
  SIMULATOR_FIELD(bool, smallShape)
};

struct UnPadTiling {
  SIMULATOR_FIELD(uint32_t, srcHeight)
  SIMULATOR_FIELD(uint32_t, srcWidth)
  SIMULATOR_FIELD(uint32_t, tmpBuffer1BlockNum)
  SIMULATOR_FIELD(uint32_t, tmpBuffer1RowNum)
  SIMULATOR_FIELD(uint32_t, tmpBuffer2Offset)
  SIMULATOR_FIELD(uint32_t, widthTiling)
  SIMULATOR_FIELD(uint32_t, widthFractal)
  SIMULATOR_FIELD(uint32_t, widthFractalTail)
};

struct PadTiling {
  SIMULATOR_FIELD(uint32_t, srcHeight)
  SIMULATOR_FIELD(uint32_t, srcWidth)
  SIMULATOR_FIELD(uint32_t, srcOriWidth)
  SIMULATOR_FIELD(uint32_t, widthWithoutLastBlock)
  SIMULATOR_FIELD(uint32_t, blocksPerRow)
  SIMULATOR_FIELD(uint32_t, heightTiling)
  SIMULATOR_FIELD(uint32_t, heightFractal)
  SIMULATOR_FIELD(uint32_t, heightFractalTail)
  SIMULATOR_FIELD(uint32_t, mainLoopOffset)
  SIMULATOR_FIELD(uint32_t, tailBlockOffset)
  SIMULATOR_FIELD(uint32_t, tmpBuffer1BlockNum)
  SIMULATOR_FIELD(uint32_t, tmpBuffer1RowNum)
  SIMULATOR_FIELD(uint32_t, tmpBuffer2Offset)
  SIMULATOR_FIELD(uint32_t, widthTiling)
  SIMULATOR_FIELD(uint32_t, widthFractal)
  SIMULATOR_FIELD(uint32_t, widthFractalTail)
  SIMULATOR_FIELD(uint32_t, widthFractalTailAlingned)
  SIMULATOR_FIELD(uint32_t, brcbTiling)
  SIMULATOR_FIELD(uint32_t, brcbFractal)
  SIMULATOR_FIELD(uint32_t, brcbFractalTail)
  SIMULATOR_FIELD(uint32_t, maxRepeatTimes)
  SIMULATOR_FIELD(uint32_t, brcbTilingRepeatTimes)
  SIMULATOR_FIELD(uint32_t, brcbTilingRepeatTimesTail)
  SIMULATOR_FIELD(uint32_t, brcbFractalTailRepeatTimes)
  SIMULATOR_FIELD(uint32_t, brcbFractalTailRepeatTimesTail)
  SIMULATOR_FIELD(uint32_t, reserved)
};

struct TopkTiling {
  SIMULATOR_FIELD(int32_t, tmpLocalSize)
  SIMULATOR_FIELD(int32_t, allDataSize)
  SIMULATOR_FIELD(int32_t, innerDataSize)
  SIMULATOR_FIELD(uint32_t, sortRepeat)
  SIMULATOR_FIELD(int32_t, mrgSortRepeat)
  SIMULATOR_FIELD(int32_t, kAlignFourBytes)
  SIMULATOR_FIELD(int32_t, kAlignTwoBytes)
  SIMULATOR_FIELD(int32_t, maskOffset)
  SIMULATOR_FIELD(int32_t, maskVreducev2FourBytes)
  SIMULATOR_FIELD(int32_t, maskVreducev2TwoBytes)
  SIMULATOR_FIELD(int32_t, mrgSortSrc1offset)
  SIMULATOR_FIELD(int32_t, mrgSortSrc2offset)
  SIMULATOR_FIELD(int32_t, mrgSortSrc3offset)
  SIMULATOR_FIELD(int32_t, mrgSortTwoQueueSrc1Offset)
  SIMULATOR_FIELD(int32_t, mrgFourQueueTailPara1)
  SIMULATOR_FIELD(int32_t, mrgFourQueueTailPara2)
  SIMULATOR_FIELD(int32_t, srcIndexOffset)
  SIMULATOR_FIELD(uint32_t, copyUbToUbBlockCount)
  SIMULATOR_FIELD(int32_t, topkMrgSrc1MaskSizeOffset)
  SIMULATOR_FIELD(int32_t, topkNSmallSrcIndexOffset)
  SIMULATOR_FIELD(uint32_t, vreduceValMask0)
  SIMULATOR_FIELD(uint32_t, vreduceValMask1)
  SIMULATOR_FIELD(uint32_t, vreduceIdxMask0)
  SIMULATOR_FIELD(uint32_t, vreduceIdxMask1)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask0)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask1)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask2)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask3)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask4)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask5)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask6)
  SIMULATOR_FIELD(uint16_t, vreducehalfValMask7)
};

}  // namespace tiling
}  // namespace AscendC

#include "norm_grad_tiling.h"
#undef SIMULATOR_FIELD

namespace optiling {
using ::AscendC::tiling::TCubeTiling;
using ::AscendC::tiling::SoftMaxTiling;
using ::AscendC::tiling::LogSoftMaxTiling;
using ::AscendC::tiling::LayerNormTiling;
using ::AscendC::tiling::LayerNormSeparateTiling;
using ::AscendC::tiling::LayerNormGradTiling;
using ::AscendC::tiling::LayerNormGradBetaTiling;
using ::AscendC::tiling::RmsNormTiling;
using ::AscendC::tiling::BatchNormTiling;
using ::AscendC::tiling::GroupNormTiling;
using ::AscendC::tiling::UnPadTiling;
using ::AscendC::tiling::PadTiling;
using ::AscendC::tiling::TopkTiling;
}  // namespace optiling

using ::AscendC::tiling::TCubeTiling;  // host code names it without a namespace, too

#ifdef SIMULATOR_KERNEL_TU
using namespace optiling;  // kernels name their tiling struct without the host's namespace
#endif
