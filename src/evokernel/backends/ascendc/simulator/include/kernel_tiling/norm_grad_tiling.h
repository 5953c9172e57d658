// Tiling structs of the normalisations' gradients; a part of kernel_tiling.h, which makes TWIN_FIELD.
#pragma once

namespace AscendC {
namespace tiling {

struct LayerNormGradTiling {
  TWIN_FIELD(uint32_t, stackBufferSize)
  TWIN_FIELD(uint32_t, bLength)
  TWIN_FIELD(uint32_t, sLength)
  TWIN_FIELD(uint32_t, hLength)
  TWIN_FIELD(uint32_t, originalHLength)
  TWIN_FIELD(uint32_t, oneCalSize)
  TWIN_FIELD(uint32_t, nohCalSize)
  TWIN_FIELD(uint32_t, loopNum)
  TWIN_FIELD(uint32_t, tailSize)
  TWIN_FIELD(uint32_t, nohTailSize)
  TWIN_FIELD(uint32_t, tmpTensorBSHPos)
  TWIN_FIELD(uint32_t, tmpTensorBSHSize)
  TWIN_FIELD(uint32_t, pdVarTensorPos)
  TWIN_FIELD(uint32_t, pdVarTensorSize)
  TWIN_FIELD(uint32_t, pdMeanTensorPos)
  TWIN_FIELD(uint32_t, pdMeanTensorSize)
  TWIN_FIELD(uint32_t, x1TensorPos)
  TWIN_FIELD(uint32_t, x1TensorSize)
  TWIN_FIELD(uint32_t, x2TensorPos)
  TWIN_FIELD(uint32_t, x2TensorSize)
  TWIN_FIELD(uint32_t, x3TensorPos)
  TWIN_FIELD(uint32_t, x3TensorSize)
  TWIN_FIELD(uint32_t, tmpTensorPos)
  TWIN_FIELD(uint32_t, tmpTensorSize)
  TWIN_FIELD(uint32_t, tmpTensor1Pos)
  TWIN_FIELD(uint32_t, tmpTensor1Size)
  TWIN_FIELD(uint32_t, tmpTensor2Pos)
  TWIN_FIELD(uint32_t, tmpTensor2Size)
  TWIN_FIELD(float, lastDimValueBack)
  TWIN_FIELD(float, lastDimValueBackMulTwo)
};

struct LayerNormGradBetaTiling {
  TWIN_FIELD(uint32_t, stackBufferSize)
  TWIN_FIELD(uint32_t, bLength)
  TWIN_FIELD(uint32_t, sLength)
  TWIN_FIELD(uint32_t, hLength)
  TWIN_FIELD(uint32_t, originalHLength)
  TWIN_FIELD(uint32_t, bshLength)
  TWIN_FIELD(uint32_t, bsLength)
  TWIN_FIELD(uint32_t, oneCalSize)
  TWIN_FIELD(uint32_t, numberOfTmpBuf)
  TWIN_FIELD(uint32_t, loopRound)
  TWIN_FIELD(uint32_t, inputTailSize)
  TWIN_FIELD(uint32_t, inputTailPos)
  TWIN_FIELD(uint32_t, bsTailSize)
  TWIN_FIELD(uint32_t, bshCurLength)
  TWIN_FIELD(uint32_t, bsCurLength)
  TWIN_FIELD(uint32_t, gammaTempTensorPos)
  TWIN_FIELD(uint32_t, betaTempTensorPos)
  TWIN_FIELD(uint32_t, inputDyTmpTensorPos)
  TWIN_FIELD(uint32_t, resForGammaTmpTensorPos)
  TWIN_FIELD(uint32_t, reserved)
};

}  // namespace tiling
}  // namespace AscendC
