// The least of Ascend C that a kernel without vector instructions needs, for programs that launch it by themselves.
#pragma once
#include <cstdint>

#define __global__
#define __aicore__
#define __gm__
#define GM_ADDR uint8_t*

inline int64_t fakeBlock = 0;

namespace AscendC {
inline int64_t GetBlockIdx() { return fakeBlock; }
}  // namespace AscendC
