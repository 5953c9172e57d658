// Kernels that multiply matrices with the library's Matmul.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace matmul;

struct Shape {
  AscendC::tiling::TCubeTiling cube;
  int32_t transposeA, transposeB, hasBias, mode;
};

template <typename T, typename C, CubeFormat format> void product(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Shape, shape, arguments[5]);
  AscendC::TPipe pipe;
  Matmul<MatmulType<AscendC::TPosition::GM, format, T>, MatmulType<AscendC::TPosition::GM, format, T>,
         MatmulType<AscendC::TPosition::GM, CubeFormat::ND, C>, MatmulType<AscendC::TPosition::GM, CubeFormat::ND, C>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &shape.cube);
  AscendC::GlobalTensor<T> a, b;
  AscendC::GlobalTensor<C> bias, c;
  a.SetGlobalBuffer(reinterpret_cast<T*>(arguments[0]));
  b.SetGlobalBuffer(reinterpret_cast<T*>(arguments[1]));
  bias.SetGlobalBuffer(reinterpret_cast<C*>(arguments[2]));
  c.SetGlobalBuffer(reinterpret_cast<C*>(arguments[3]));
  const auto& t = shape.cube;
  int across = (t.N + t.singleCoreN - 1) / t.singleCoreN;
  int row = int(GetBlockIdx()) / across * t.singleCoreM, column = int(GetBlockIdx()) % across * t.singleCoreN;
  if (row >= t.M) return;
  mm.SetTensorA(a[shape.transposeA ? row : row * t.Ka], shape.transposeA);
  mm.SetTensorB(b[shape.transposeB ? column * t.Kb : column], shape.transposeB);
  if (shape.hasBias) mm.SetBias(bias[column]);
  mm.SetTail(std::min(t.singleCoreM, t.M - row), std::min(t.singleCoreN, t.N - column));
  auto to = c[row * t.N + column];
  if (shape.mode == 0) mm.IterateAll(to);
  if (shape.mode == 1)
    while (mm.Iterate()) mm.GetTensorC(to);
  if (shape.mode == 2) {
    mm.template IterateAll<false>(to, 1);
    mm.WaitIterateAll();
  }
  mm.End();
}

extern "C" void product_float(unsigned char* const* arguments) { product<float, float, CubeFormat::ND>(arguments); }
extern "C" void product_half(unsigned char* const* arguments) { product<half, float, CubeFormat::ND>(arguments); }
extern "C" void product_half_half(unsigned char* const* arguments) { product<half, half, CubeFormat::ND>(arguments); }
extern "C" void product_brain(unsigned char* const* arguments) { product<bfloat16_t, float, CubeFormat::ND>(arguments); }
extern "C" void product_int8(unsigned char* const* arguments) { product<int8_t, int32_t, CubeFormat::ND>(arguments); }
