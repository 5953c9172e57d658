// Enumerations of the library that host and kernel share.
#pragma once
#include <cstdint>

namespace AscendC {

enum class ReducePattern : uint32_t {
  AR = 0,
  RA = 1,
  R,
  ARA,
  ARAR,
  ARARA,
  ARARAR,
  ARARARA,
  ARARARAR,
  ARARARARA,
  RAR,
  RARA,
  RARAR,
  RARARA,
  RARARAR,
  RARARARA
};
enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };

}  // namespace AscendC
