// Prints what the library's tiling functions decide, one line each: name, then numbers.
#include <cstdio>

#include "tiling/tiling_api.h"

static void matmul(int m, int n, int k, int cores) {
  matmul_tiling::MultiCoreMatmulTiling made(*platform_ascendc::PlatformAscendCManager::GetInstance());
  made.SetDim(cores);
  made.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  made.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  made.SetCType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT);
  made.SetShape(m, n, k);
  made.SetOrgShape(m, n, k);
  optiling::TCubeTiling t;
  long result = made.GetTiling(t);
  printf("matmul %d %d %d %d %ld %d %d %d %d %d %d %d\n", m, n, k, cores, result, t.get_usedCoreNum(), t.singleCoreM, t.singleCoreN, t.singleCoreK,
         t.baseM, t.baseN, t.baseK);
}

static void fixed(int m, int n) {
  matmul_tiling::MatmulApiTiling made;
  made.SetShape(512, 512, 64);
  made.SetFixSplit(m, n, -1);
  AscendC::tiling::TCubeTiling t;
  printf("fixed %d %d %ld\n", m, n, long(made.GetTiling(t)));
}

static void softmax(int rows, int width, uint32_t bytes) {
  AscendC::TensorShape shape({rows, width});
  uint32_t least = AscendC::GetSoftMaxMinTmpSize(shape, 4, false), most = AscendC::GetSoftMaxMaxTmpSize(shape, 4, false);
  optiling::SoftMaxTiling t;
  AscendC::SoftMaxTilingFunc(shape, 4, bytes, t);
  printf("softmax %d %d %u %u %u %u %u %u\n", rows, width, bytes, least, most, t.get_splitM(), t.get_rangeM(), t.get_tailM());
}

static void layerNorm(int b, int s, int padded, int width) {
  uint32_t most = 0, least = 0;
  AscendC::TensorShape shape({b, s, padded, width});
  AscendC::GetLayerNormMaxMinTmpSize(shape, 4, false, most, least);
  optiling::LayerNormTiling t;
  AscendC::GetLayerNormNDTilingInfo(shape, most, 4, false, t);
  printf("layernorm %u %u %u %u %d\n", t.get_bLength(), t.get_sLength(), t.get_hLength(), t.get_originalHLength(), int(most > least));
}

static void separateLayerNorm(int rows, int width) {
  uint32_t most = 0, least = 0;
  AscendC::TensorShape shape({rows, width});
  AscendC::GetLayerNormMaxMinTmpSize(shape, 2, false, true, false, most, least);
  optiling::LayerNormSeparateTiling t;
  AscendC::GetLayerNormNDTilingInfo(shape, least, 2, false, true, t);
  printf("separate %u %u %u\n", t.get_aLength(), t.get_rLength(), t.get_inputXSize());
}

static void scratch(const char* name, decltype(static_cast<bool (*)(const AscendC::TensorShape&, uint32_t, bool, uint32_t&, uint32_t&)>(nullptr)) function,
                    uint32_t typeSize) {
  uint32_t most = 0, least = 0;
  function(AscendC::TensorShape({8, 128}), typeSize, false, most, least);
  printf("scratch %s %u %u %u\n", name, typeSize, most, least);
}

int main() {
  for (int cores : {1, 7, 24}) {
    matmul(16, 16, 16, cores);
    matmul(1000, 513, 77, cores);
    matmul(4096, 4096, 4096, cores);
    matmul(1, 5000, 64, cores);
  }
  matmul(0, 16, 16, 1);
  fixed(128, 256);
  fixed(256, 256);
  softmax(64, 100, 4096);
  softmax(3, 4096, 1 << 20);
  layerNorm(2, 16, 64, 61);
  separateLayerNorm(2, 61);
  scratch("tanh", AscendC::GetTanhMaxMinTmpSize, 4);
  scratch("tanh", AscendC::GetTanhMaxMinTmpSize, 2);
  scratch("erf", AscendC::GetErfMaxMinTmpSize, 4);
  uint64_t size = 0;
  platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreMemSize(platform_ascendc::CoreMemType::UB, size);
  printf("ub %llu\n", static_cast<unsigned long long>(size));
}
