// The candidate's kernel with the macros of CANN's build. call.h is generated for each candidate.
#pragma once
#include "kernel_operator.h"
#include "register/tilingdata_base.h"
#include "call.h"

#ifdef EVOKERNEL_HEADER
#include EVOKERNEL_HEADER
#endif

#ifdef EVOKERNEL_TILING
#undef GET_TILING_DATA
#define GET_TILING_DATA(name, place)                                          \
  EVOKERNEL_TILING name;                                                      \
  for (uint32_t i = 0; i < sizeof(name) / sizeof(uint32_t); ++i) {            \
    reinterpret_cast<uint32_t*>(&name)[i] = ((__gm__ uint32_t*)(place))[i];   \
  }
#endif

#undef TILING_KEY_IS
#define TILING_KEY_IS(key) (EVOKERNEL_KEY == (key))

#include EVOKERNEL_KERNEL
