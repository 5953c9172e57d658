// Tiling structs of the library functions: written by the host's tiling functions, read by the kernel.
// The twin's library functions need few of the fields; all are there, so that host code that sets them compiles.
#pragma once
#include <cstdint>

#define TWIN_FIELD(type, name)                         \
  type name = 0;                                       \
  void set_##name(type value) { this->name = value; }  \
  type get_##name() const { return this->name; }

namespace AscendC {
namespace tiling {

struct TCubeTiling {
  TWIN_FIELD(int32_t, usedCoreNum)
  TWIN_FIELD(int32_t, M)
  TWIN_FIELD(int32_t, N)
  TWIN_FIELD(int32_t, Ka)
  TWIN_FIELD(int32_t, Kb)
  TWIN_FIELD(int32_t, singleCoreM)
  TWIN_FIELD(int32_t, singleCoreN)
  TWIN_FIELD(int32_t, singleCoreK)
  TWIN_FIELD(int32_t, baseM)
  TWIN_FIELD(int32_t, baseN)
  TWIN_FIELD(int32_t, baseK)
  TWIN_FIELD(int32_t, depthA1)
  TWIN_FIELD(int32_t, depthB1)
  TWIN_FIELD(int32_t, stepM)
  TWIN_FIELD(int32_t, stepN)
  TWIN_FIELD(int32_t, isBias)
  TWIN_FIELD(int32_t, transLength)
  TWIN_FIELD(int32_t, iterateOrder)
  TWIN_FIELD(int32_t, shareMode)
  TWIN_FIELD(int32_t, shareL1Size)
  TWIN_FIELD(int32_t, shareL0CSize)
  TWIN_FIELD(int32_t, shareUbSize)
  TWIN_FIELD(int32_t, batchM)
  TWIN_FIELD(int32_t, batchN)
  TWIN_FIELD(int32_t, singleBatchM)
  TWIN_FIELD(int32_t, singleBatchN)
  TWIN_FIELD(int32_t, stepKa)
  TWIN_FIELD(int32_t, stepKb)
  TWIN_FIELD(int32_t, depthAL1CacheUB)
  TWIN_FIELD(int32_t, depthBL1CacheUB)
  TWIN_FIELD(int32_t, dbL0A)
  TWIN_FIELD(int32_t, dbL0B)
  TWIN_FIELD(int32_t, dbL0C)
  TWIN_FIELD(int32_t, ALayoutInfoB)
  TWIN_FIELD(int32_t, ALayoutInfoS)
  TWIN_FIELD(int32_t, ALayoutInfoN)
  TWIN_FIELD(int32_t, ALayoutInfoG)
  TWIN_FIELD(int32_t, ALayoutInfoD)
  TWIN_FIELD(int32_t, BLayoutInfoB)
  TWIN_FIELD(int32_t, BLayoutInfoS)
  TWIN_FIELD(int32_t, BLayoutInfoN)
  TWIN_FIELD(int32_t, BLayoutInfoG)
  TWIN_FIELD(int32_t, BLayoutInfoD)
  TWIN_FIELD(int32_t, CLayoutInfoB)
  TWIN_FIELD(int32_t, CLayoutInfoS1)
  TWIN_FIELD(int32_t, CLayoutInfoN)
  TWIN_FIELD(int32_t, CLayoutInfoG)
  TWIN_FIELD(int32_t, CLayoutInfoS2)
  TWIN_FIELD(int32_t, BatchNum)
  TWIN_FIELD(int32_t, mxTypePara)
};

struct SoftMaxTiling {
  TWIN_FIELD(uint32_t, srcM)
  TWIN_FIELD(uint32_t, srcK)
  TWIN_FIELD(uint32_t, srcSize)
  TWIN_FIELD(uint32_t, outMaxM)
  TWIN_FIELD(uint32_t, outMaxK)
  TWIN_FIELD(uint32_t, outMaxSize)
  TWIN_FIELD(uint32_t, splitM)
  TWIN_FIELD(uint32_t, splitK)
  TWIN_FIELD(uint32_t, splitSize)
  TWIN_FIELD(uint32_t, reduceM)
  TWIN_FIELD(uint32_t, reduceK)
  TWIN_FIELD(uint32_t, reduceSize)
  TWIN_FIELD(uint32_t, rangeM)
  TWIN_FIELD(uint32_t, tailM)
  TWIN_FIELD(uint32_t, tailSplitSize)
  TWIN_FIELD(uint32_t, tailReduceSize)
};

struct LogSoftMaxTiling {
  TWIN_FIELD(uint32_t, srcM)
  TWIN_FIELD(uint32_t, srcK)
  TWIN_FIELD(uint32_t, srcSize)
  TWIN_FIELD(uint32_t, outMaxM)
  TWIN_FIELD(uint32_t, outMaxK)
  TWIN_FIELD(uint32_t, outMaxSize)
  TWIN_FIELD(uint32_t, splitM)
  TWIN_FIELD(uint32_t, splitK)
  TWIN_FIELD(uint32_t, splitSize)
  TWIN_FIELD(uint32_t, reduceM)
  TWIN_FIELD(uint32_t, reduceK)
  TWIN_FIELD(uint32_t, reduceSize)
  TWIN_FIELD(uint32_t, rangeM)
  TWIN_FIELD(uint32_t, tailM)
  TWIN_FIELD(uint32_t, tailSplitSize)
  TWIN_FIELD(uint32_t, tailReduceSize)
};

struct LayerNormTiling {
  TWIN_FIELD(uint32_t, bLength)
  TWIN_FIELD(uint32_t, sLength)
  TWIN_FIELD(uint32_t, hLength)
  TWIN_FIELD(uint32_t, originalHLength)
  TWIN_FIELD(uint32_t, inputXSize)
  TWIN_FIELD(uint32_t, meanVarSize)
  TWIN_FIELD(uint32_t, numberOfTmpBuf)
  TWIN_FIELD(uint32_t, meanTmpTensorPos)
  TWIN_FIELD(uint32_t, meanTmpTensorSize)
  TWIN_FIELD(uint32_t, varianceTmpTensorPos)
  TWIN_FIELD(uint32_t, varianceTmpTensorSize)
  TWIN_FIELD(uint32_t, tmpBufSize)
  TWIN_FIELD(uint32_t, oneTmpSize)
  TWIN_FIELD(uint32_t, firstTmpStartPos)
  TWIN_FIELD(uint32_t, secondTmpStartPos)
  TWIN_FIELD(uint32_t, thirdTmpStartPos)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputRoundSize)
  TWIN_FIELD(uint32_t, inputTailSize)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, meanVarRoundSize)
  TWIN_FIELD(uint32_t, meanVarTailSize)
  TWIN_FIELD(uint32_t, meanVarTailPos)
  TWIN_FIELD(uint32_t, bshCurLength)
  TWIN_FIELD(uint32_t, bsCurLength)
  TWIN_FIELD(float, lastDimValueBack)
};

struct LayerNormSeparateTiling {
  TWIN_FIELD(uint32_t, aLength)
  TWIN_FIELD(uint32_t, rLength)
  TWIN_FIELD(uint32_t, halfAddRepeatTimes)
  TWIN_FIELD(uint32_t, rHeadLength)
  TWIN_FIELD(float, k2Rec)
  TWIN_FIELD(float, k2RRec)
  TWIN_FIELD(uint32_t, inputXSize)
  TWIN_FIELD(uint32_t, meanVarSize)
  TWIN_FIELD(uint32_t, numberOfTmpBuf)
  TWIN_FIELD(uint32_t, varianceTmpTensorPos)
  TWIN_FIELD(uint32_t, varianceTmpTensorSize)
  TWIN_FIELD(uint32_t, tmpBufSize)
  TWIN_FIELD(uint32_t, oneTmpSize)
  TWIN_FIELD(uint32_t, firstTmpStartPos)
  TWIN_FIELD(uint32_t, secondTmpStartPos)
  TWIN_FIELD(uint32_t, thirdTmpStartPos)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputRoundSize)
  TWIN_FIELD(uint32_t, inputTailSize)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, meanVarRoundSize)
  TWIN_FIELD(uint32_t, meanVarTailSize)
  TWIN_FIELD(uint32_t, meanVarTailPos)
  TWIN_FIELD(uint32_t, arCurLength)
  TWIN_FIELD(uint32_t, aCurLength)
  TWIN_FIELD(float, rValueBack)
};

struct RmsNormTiling {
  TWIN_FIELD(uint32_t, bLength)
  TWIN_FIELD(uint32_t, sLength)
  TWIN_FIELD(uint32_t, hLength)
  TWIN_FIELD(uint32_t, originalHLength)
  TWIN_FIELD(float, reciprocalOfHLength)
  TWIN_FIELD(uint32_t, mainBshLength)
  TWIN_FIELD(uint32_t, mainBsLength)
  TWIN_FIELD(uint32_t, mainBsLengthAlign)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, tailBshLength)
  TWIN_FIELD(uint32_t, tailBsLength)
};

struct BatchNormTiling {
  TWIN_FIELD(uint32_t, originalBLength)
  TWIN_FIELD(uint32_t, meanVarSize)
  TWIN_FIELD(uint32_t, meanTmpTensorPos)
  TWIN_FIELD(uint32_t, varianceTmpTensorPos)
  TWIN_FIELD(uint32_t, tmpBufSize)
  TWIN_FIELD(uint32_t, oneTmpSize)
  TWIN_FIELD(uint32_t, firstTmpStartPos)
  TWIN_FIELD(uint32_t, secondTmpStartPos)
  TWIN_FIELD(uint32_t, thirdTmpStartPos)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputTailSize)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, meanVarTailSize)
  TWIN_FIELD(uint32_t, meanVarTailPos)
  TWIN_FIELD(uint32_t, bshCurLength)
  TWIN_FIELD(uint32_t, shCurLength)
  TWIN_FIELD(float, firstDimValueBack)
  TWIN_FIELD(uint32_t, castHalfRepStride)
  TWIN_FIELD(uint32_t, shCurLengthBlockNum)
  TWIN_FIELD(uint32_t, castHalfOutRepStride)
};

struct GroupNormTiling {
  TWIN_FIELD(uint32_t, n)
  TWIN_FIELD(uint32_t, c)
  TWIN_FIELD(uint32_t, hw)
  TWIN_FIELD(uint32_t, g)
  TWIN_FIELD(uint32_t, d)
  TWIN_FIELD(uint32_t, hwAlignSize)
  TWIN_FIELD(uint32_t, dhwAlignSize)
  TWIN_FIELD(uint32_t, inputXSize)
  TWIN_FIELD(uint32_t, meanVarSize)
  TWIN_FIELD(uint32_t, numberOfTmpBuf)
  TWIN_FIELD(uint32_t, meanTmpTensorPos)
  TWIN_FIELD(uint32_t, meanTmpTensorSize)
  TWIN_FIELD(uint32_t, varianceTmpTensorPos)
  TWIN_FIELD(uint32_t, varianceTmpTensorSize)
  TWIN_FIELD(uint32_t, tmpBufSize)
  TWIN_FIELD(uint32_t, oneTmpSize)
  TWIN_FIELD(uint32_t, firstTmpStartPos)
  TWIN_FIELD(uint32_t, secondTmpStartPos)
  TWIN_FIELD(uint32_t, thirdTmpStartPos)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputRoundSize)
  TWIN_FIELD(uint32_t, inputTailSize)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, meanVarRoundSize)
  TWIN_FIELD(uint32_t, meanVarTailSize)
  TWIN_FIELD(uint32_t, meanVarTailPos)
  TWIN_FIELD(uint32_t, bshCurLength)
  TWIN_FIELD(uint32_t, bsCurLength)
  TWIN_FIELD(float, factor)
  TWIN_FIELD(bool, smallShape)
};

struct UnPadTiling {
  TWIN_FIELD(uint32_t, srcHeight)
  TWIN_FIELD(uint32_t, srcWidth)
  TWIN_FIELD(uint32_t, tmpBuffer1BlockNum)
  TWIN_FIELD(uint32_t, tmpBuffer1RowNum)
  TWIN_FIELD(uint32_t, tmpBuffer2Offset)
  TWIN_FIELD(uint32_t, widthTiling)
  TWIN_FIELD(uint32_t, widthFractal)
  TWIN_FIELD(uint32_t, widthFractalTail)
};

struct PadTiling {
  TWIN_FIELD(uint32_t, srcHeight)
  TWIN_FIELD(uint32_t, srcWidth)
  TWIN_FIELD(uint32_t, srcOriWidth)
  TWIN_FIELD(uint32_t, widthWithoutLastBlock)
  TWIN_FIELD(uint32_t, blocksPerRow)
  TWIN_FIELD(uint32_t, heightTiling)
  TWIN_FIELD(uint32_t, heightFractal)
  TWIN_FIELD(uint32_t, heightFractalTail)
  TWIN_FIELD(uint32_t, mainLoopOffset)
  TWIN_FIELD(uint32_t, tailBlockOffset)
  TWIN_FIELD(uint32_t, tmpBuffer1BlockNum)
  TWIN_FIELD(uint32_t, tmpBuffer1RowNum)
  TWIN_FIELD(uint32_t, tmpBuffer2Offset)
  TWIN_FIELD(uint32_t, widthTiling)
  TWIN_FIELD(uint32_t, widthFractal)
  TWIN_FIELD(uint32_t, widthFractalTail)
  TWIN_FIELD(uint32_t, widthFractalTailAlingned)
  TWIN_FIELD(uint32_t, brcbTiling)
  TWIN_FIELD(uint32_t, brcbFractal)
  TWIN_FIELD(uint32_t, brcbFractalTail)
  TWIN_FIELD(uint32_t, maxRepeatTimes)
  TWIN_FIELD(uint32_t, brcbTilingRepeatTimes)
  TWIN_FIELD(uint32_t, brcbTilingRepeatTimesTail)
  TWIN_FIELD(uint32_t, brcbFractalTailRepeatTimes)
  TWIN_FIELD(uint32_t, brcbFractalTailRepeatTimesTail)
  TWIN_FIELD(uint32_t, reserved)
};

struct TopkTiling {
  TWIN_FIELD(int32_t, tmpLocalSize)
  TWIN_FIELD(int32_t, allDataSize)
  TWIN_FIELD(int32_t, innerDataSize)
  TWIN_FIELD(uint32_t, sortRepeat)
  TWIN_FIELD(int32_t, mrgSortRepeat)
  TWIN_FIELD(int32_t, kAlignFourBytes)
  TWIN_FIELD(int32_t, kAlignTwoBytes)
  TWIN_FIELD(int32_t, maskOffset)
  TWIN_FIELD(int32_t, maskVreducev2FourBytes)
  TWIN_FIELD(int32_t, maskVreducev2TwoBytes)
  TWIN_FIELD(int32_t, mrgSortSrc1offset)
  TWIN_FIELD(int32_t, mrgSortSrc2offset)
  TWIN_FIELD(int32_t, mrgSortSrc3offset)
  TWIN_FIELD(int32_t, mrgSortTwoQueueSrc1Offset)
  TWIN_FIELD(int32_t, mrgFourQueueTailPara1)
  TWIN_FIELD(int32_t, mrgFourQueueTailPara2)
  TWIN_FIELD(int32_t, srcIndexOffset)
  TWIN_FIELD(uint32_t, copyUbToUbBlockCount)
  TWIN_FIELD(int32_t, topkMrgSrc1MaskSizeOffset)
  TWIN_FIELD(int32_t, topkNSmallSrcIndexOffset)
  TWIN_FIELD(uint32_t, vreduceValMask0)
  TWIN_FIELD(uint32_t, vreduceValMask1)
  TWIN_FIELD(uint32_t, vreduceIdxMask0)
  TWIN_FIELD(uint32_t, vreduceIdxMask1)
  TWIN_FIELD(uint16_t, vreducehalfValMask0)
  TWIN_FIELD(uint16_t, vreducehalfValMask1)
  TWIN_FIELD(uint16_t, vreducehalfValMask2)
  TWIN_FIELD(uint16_t, vreducehalfValMask3)
  TWIN_FIELD(uint16_t, vreducehalfValMask4)
  TWIN_FIELD(uint16_t, vreducehalfValMask5)
  TWIN_FIELD(uint16_t, vreducehalfValMask6)
  TWIN_FIELD(uint16_t, vreducehalfValMask7)
};

}  // namespace tiling
}  // namespace AscendC

#include "norm_grad_tiling.h"
#undef TWIN_FIELD

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

#ifdef TWIN_KERNEL_TU
using namespace optiling;  // kernels name their tiling struct without the host's namespace
#endif
