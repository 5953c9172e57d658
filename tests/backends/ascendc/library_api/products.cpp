// Kernels that multiply matrices with the library's Matmul.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace matmul;

namespace {

struct Shape {
  AscendC::tiling::TCubeTiling cube;
  int32_t transposeA, transposeB, hasBias, mode;
};

}  // namespace

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

// ---- other ways in and out; arguments are A, B and C

namespace {

struct Given {
  Shape shape;
  AscendC::GlobalTensor<half> a, b;
  AscendC::GlobalTensor<float> c;
  explicit Given(unsigned char* const* arguments) : shape(simulator::tilingAs<Shape>(arguments[4])) {
    a.SetGlobalBuffer(reinterpret_cast<half*>(arguments[0]));
    b.SetGlobalBuffer(reinterpret_cast<half*>(arguments[1]));
    c.SetGlobalBuffer(reinterpret_cast<float*>(arguments[2]));
  }
};

}  // namespace
template <CubeFormat format, AscendC::TPosition place = AscendC::TPosition::GM> using Halves = MatmulType<place, format, half>;
using Result = MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;
constexpr MatmulConfig OWN = GetNormalConfig(true);

extern "C" void product_strips(unsigned char* const* arguments) {
  Given given(arguments);
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::NZ>, Halves<CubeFormat::NZ>, Result, Result, OWN> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &given.shape.cube);
  mm.SetTensorA(given.a);
  mm.SetTensorB(given.b);
  mm.IterateAll(given.c);
  mm.End();
}

// A comes from local memory, and C goes there, tile by tile.
extern "C" void product_local(unsigned char* const* arguments) {
  Given given(arguments);
  const auto& t = given.shape.cube;
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND, AscendC::TPosition::VECOUT>, Halves<CubeFormat::ND>, Result> mm;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> unused;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &given.shape.cube, unused, &given.shape.cube);
  AscendC::TBuf<AscendC::TPosition::VECCALC> left, out;
  pipe.InitBuffer(left, t.M * t.Ka * sizeof(half));
  pipe.InitBuffer(out, t.baseM * t.baseN * sizeof(float));
  auto a = left.Get<half>();
  DataCopy(a, given.a, t.M * t.Ka);
  AscendC::PipeBarrier<PIPE_ALL>();
  mm.SetTensorA(a);
  mm.SetTensorB(given.b);
  auto tile = out.Get<float>();
  while (mm.Iterate()) {
    mm.GetTensorC(tile);
    auto at = mm.GetOffsetC();
    for (int row = 0; row < at.height; row++) {
      DataCopy(given.c[(at.row + row) * t.N + at.col], tile[row * t.baseN], uint32_t(at.width));
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }
  mm.End();
}

extern "C" void product_batch(unsigned char* const* arguments) {
  Given given(arguments);
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm);
  mm.Init(&given.shape.cube);
  mm.SetTensorA(given.a);
  mm.SetTensorB(given.b);
  mm.IterateBatch(given.c, 2, 2, false);
  mm.End();
}

// k in two parts, the second on top of the first.
extern "C" void product_parts(unsigned char* const* arguments) {
  Given given(arguments);
  AscendC::tiling::TCubeTiling t = given.shape.cube;
  t.baseM = t.M;
  t.baseN = t.N;
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
  mm.SetOrgShape(t.M, t.N, t.Ka, t.Kb);
  for (int part = 0; part < 2; part++) {
    mm.SetSingleShape(t.M, t.N, t.Ka / 2);
    mm.SetTensorA(given.a[part * t.Ka / 2]);
    mm.SetTensorB(given.b[part * t.Ka / 2 * t.N]);
    mm.Iterate(part > 0);
  }
  mm.GetTensorC(given.c);
  mm.End();
}

// Tiles go to the workspace, and from there to where they belong.
extern "C" void product_workspace(unsigned char* const* arguments) {
  Given given(arguments);
  const auto& t = given.shape.cube;
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &given.shape.cube);
  mm.SetWorkspace(reinterpret_cast<uint8_t*>(arguments[3]), 1 << 20);
  mm.SetTensorA(given.a);
  mm.SetTensorB(given.b);
  while (mm.template Iterate<false>()) {
    AscendC::GlobalTensor<float> tile = mm.template GetTensorC<false>();
    auto at = mm.GetOffsetC();
    for (int row = 0; row < at.height; row++)
      for (int column = 0; column < at.width; column++)
        given.c.SetValue((at.row + row) * t.N + at.col + column, tile.GetValue(row * t.baseN + column));
  }
  mm.End();
}

extern "C" void product_scaled(unsigned char* const* arguments) {
  Given given(arguments);
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &given.shape.cube);
  float half = 0.5f;
  uint32_t bits;
  memcpy(&bits, &half, sizeof bits);
  mm.SetQuantScalar(bits);
  mm.SetTensorA(given.a);
  mm.SetTensorB(given.b);
  mm.IterateAll(given.c);
  mm.End();
}

extern "C" void product_forgotten(unsigned char* const* arguments) {
  Given given(arguments);
  AscendC::TPipe pipe;
  Matmul<Halves<CubeFormat::ND>, Halves<CubeFormat::ND>, Result> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &given.shape.cube);
  mm.SetTensorA(given.a);
  mm.IterateAll(given.c);
}

// ---- products of int8 with a scale for each column, or one for all; arguments are A, B, scales and C

template <typename C> void dequantised(unsigned char* const* arguments) {
  GET_TILING_DATA_WITH_STRUCT(Shape, shape, arguments[5]);
  AscendC::TPipe pipe;
  Matmul<MatmulType<AscendC::TPosition::GM, CubeFormat::ND, int8_t>, MatmulType<AscendC::TPosition::GM, CubeFormat::ND, int8_t>,
         MatmulType<AscendC::TPosition::GM, CubeFormat::ND, C>, MatmulType<AscendC::TPosition::GM, CubeFormat::ND, int32_t>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &shape.cube);
  AscendC::GlobalTensor<int8_t> a, b;
  AscendC::GlobalTensor<uint64_t> scales;
  AscendC::GlobalTensor<C> c;
  a.SetGlobalBuffer(reinterpret_cast<int8_t*>(arguments[0]));
  b.SetGlobalBuffer(reinterpret_cast<int8_t*>(arguments[1]));
  scales.SetGlobalBuffer(reinterpret_cast<uint64_t*>(arguments[2]));
  c.SetGlobalBuffer(reinterpret_cast<C*>(arguments[3]));
  mm.SetTensorA(a);
  mm.SetTensorB(b);
  if (shape.mode == 1) mm.SetQuantScalar(scales.GetValue(0));
  if (shape.mode == 2) mm.SetQuantVector(scales);
  mm.IterateAll(c);
  mm.End();
}
extern "C" void dequantised_half(unsigned char* const* arguments) { dequantised<half>(arguments); }
extern "C" void dequantised_int8(unsigned char* const* arguments) { dequantised<int8_t>(arguments); }
