// Tiling structs of the gradients of normalisations. kernel_tiling.h includes this file and defines SIMULATOR_FIELD.
#pragma once

namespace AscendC {
namespace tiling {

struct LayerNormGradTiling {
  SIMULATOR_FIELD(uint32_t, stackBufferSize)
  SIMULATOR_FIELD(uint32_t, bLength)
  SIMULATOR_FIELD(uint32_t, sLength)
  SIMULATOR_FIELD(uint32_t, hLength)
  SIMULATOR_FIELD(uint32_t, originalHLength)
  SIMULATOR_FIELD(uint32_t, oneCalSize)
  SIMULATOR_FIELD(uint32_t, nohCalSize)
  SIMULATOR_FIELD(uint32_t, loopNum)
  SIMULATOR_FIELD(uint32_t, tailSize)
  SIMULATOR_FIELD(uint32_t, nohTailSize)
  SIMULATOR_FIELD(uint32_t, tmpTensorBSHPos)
  SIMULATOR_FIELD(uint32_t, tmpTensorBSHSize)
  SIMULATOR_FIELD(uint32_t, pdVarTensorPos)
  SIMULATOR_FIELD(uint32_t, pdVarTensorSize)
  SIMULATOR_FIELD(uint32_t, pdMeanTensorPos)
  SIMULATOR_FIELD(uint32_t, pdMeanTensorSize)
  SIMULATOR_FIELD(uint32_t, x1TensorPos)
  SIMULATOR_FIELD(uint32_t, x1TensorSize)
  SIMULATOR_FIELD(uint32_t, x2TensorPos)
  SIMULATOR_FIELD(uint32_t, x2TensorSize)
  SIMULATOR_FIELD(uint32_t, x3TensorPos)
  SIMULATOR_FIELD(uint32_t, x3TensorSize)
  SIMULATOR_FIELD(uint32_t, tmpTensorPos)
  SIMULATOR_FIELD(uint32_t, tmpTensorSize)
  SIMULATOR_FIELD(uint32_t, tmpTensor1Pos)
  SIMULATOR_FIELD(uint32_t, tmpTensor1Size)
  SIMULATOR_FIELD(uint32_t, tmpTensor2Pos)
  SIMULATOR_FIELD(uint32_t, tmpTensor2Size)
  SIMULATOR_FIELD(float, lastDimValueBack)
  SIMULATOR_FIELD(float, lastDimValueBackMulTwo)
};

struct LayerNormGradBetaTiling {
  SIMULATOR_FIELD(uint32_t, stackBufferSize)
  SIMULATOR_FIELD(uint32_t, bLength)
  SIMULATOR_FIELD(uint32_t, sLength)
  SIMULATOR_FIELD(uint32_t, hLength)
  SIMULATOR_FIELD(uint32_t, originalHLength)
  SIMULATOR_FIELD(uint32_t, bshLength)
  SIMULATOR_FIELD(uint32_t, bsLength)
  SIMULATOR_FIELD(uint32_t, oneCalSize)
  SIMULATOR_FIELD(uint32_t, numberOfTmpBuf)
  SIMULATOR_FIELD(uint32_t, loopRound)
  SIMULATOR_FIELD(uint32_t, inputTailSize)
  SIMULATOR_FIELD(uint32_t, inputTailPos)
  SIMULATOR_FIELD(uint32_t, bsTailSize)
  SIMULATOR_FIELD(uint32_t, bshCurLength)
  SIMULATOR_FIELD(uint32_t, bsCurLength)
  SIMULATOR_FIELD(uint32_t, gammaTempTensorPos)
  SIMULATOR_FIELD(uint32_t, betaTempTensorPos)
  SIMULATOR_FIELD(uint32_t, inputDyTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, resForGammaTmpTensorPos)
  SIMULATOR_FIELD(uint32_t, reserved)
};

}  // namespace tiling
}  // namespace AscendC
