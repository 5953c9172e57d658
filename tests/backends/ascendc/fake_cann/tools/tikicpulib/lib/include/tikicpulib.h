// The debug mode of the fake toolkit: blocks one after the other, in this process.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "kernel_operator.h"

enum class KernelMode { MIX_MODE, AIV_MODE, AIC_MODE };

namespace AscendC {
inline void* GmAlloc(size_t bytes) { return std::malloc(bytes); }
inline void GmFree(void* place) { std::free(place); }
inline void SetKernelMode(KernelMode) {}
}  // namespace AscendC

#define ICPU_SET_TILING_KEY(key) (void)(key)
#define ICPU_RUN_KF(kernel, blocks, ...)                                     \
  for (fakeBlock = 0; fakeBlock < static_cast<int64_t>(blocks); ++fakeBlock) \
  kernel(__VA_ARGS__)
