// What a kernel can ask about where it runs, and the macros every kernel is written with.
#pragma once
#include "sync.h"

#define TILING_KEY_IS(key) (::twin::run.tilingKey == uint64_t(key))
#define TILING_KEY_VAR (::twin::run.tilingKey)
// The struct's name in two parts: a compiler leaves a precompiled header alone that holds a macro of the command line.
#define GET_TILING_DATA(name, pointer) TWIN_TILING_##STRUCT name = ::twin::tilingAs<TWIN_TILING_##STRUCT>(pointer)
#define GET_TILING_DATA_WITH_STRUCT(type, name, pointer) type name = ::twin::tilingAs<type>(pointer)
#define GET_TILING_DATA_MEMBER(type, member, name, pointer) auto name = ::twin::tilingAs<type>(pointer).member
#define GET_TILING_DATA_PTR_WITH_STRUCT(type, name, pointer) \
  type name##Held = ::twin::tilingAs<type>(pointer);         \
  const type* name = &name##Held
#define REGISTER_TILING_DEFAULT(type)
#define REGISTER_TILING_FOR_TILINGKEY(key, type)
#define COPY_TILING_WITH_STRUCT(type, pointer, name) type name = ::twin::tilingAs<type>(pointer)
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#define ENABLE_PRINTF()
// Assertions are for CANN's debugging builds. Kernels have them in the middle of a statement, too.
#define ASSERT(...)
#define ASCENDC_ASSERT(...)
#define ASCENDC_DEBUG_ASSERT(...)
#define ASCEND_IS_AIV (!::twin::core->isCube)
#define ASCEND_IS_AIC (::twin::core->isCube)
#define g_coreType (::twin::core->isCube ? int(AscendC::AIC) : int(AscendC::AIV))
#define DTYPE_UNKNOWN float

namespace twin {

// The tiling data lies in global memory, and the kernel's first lines copy it.
template <typename T> inline T tilingAs(const uint8_t* seen) {
  const Region* region = regionAt(reinterpret_cast<uintptr_t>(seen));
  if (!region || region->high - region->low < sizeof(T))
    stop("E-TILING-STRUCT", "GET_TILING_DATA: the struct has %zu bytes, the tiling data %ld", sizeof(T), region ? long(region->high - region->low) : 0);
  T copied;
  memcpy(&copied, reinterpret_cast<const void*>(region->low), sizeof(T));
  core->scalar(chip().scalar_gm_miss);
  return copied;
}

}  // namespace twin

namespace AscendC {

inline int64_t GetBlockIdx() { return twin::core->blockIndex; }
inline int64_t GetBlockNum() { return twin::run.blockCount; }
inline int64_t GetSubBlockIdx() { return twin::core->subBlock; }
inline int64_t GetSubBlockNum() { return twin::run.isMix ? 2 : 1; }
inline int64_t GetTaskRation() { return twin::run.isMix ? 2 : 1; }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
inline int64_t GetProgramCounter() { return 0; }
inline int64_t GetSystemCycle() { return int64_t(twin::core->time[twin::S]); }
inline uint64_t GetArchVersion() { return 2201; }
inline void InitSocState() {}
inline void SetSysWorkspace(GM_ADDR) {}
inline void SetSysWorkspaceForce(GM_ADDR) {}
inline GM_ADDR GetSysWorkSpacePtr() {
  twin::needsSystemWorkspace("GetSysWorkSpacePtr");
  return twin::run.workspace;
}
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) {
  return twin::needsSystemWorkspace("GetUserWorkspace") ? twin::run.workspace + twin::SYSTEM_WORKSPACE : workspace;
}
inline void OOMInit() {}
// Templates, so that they are taken where C's printf is in sight as well.
template <typename... Values> inline void printf(const char*, const Values&...) {}
template <typename... Values> inline void PRINTF(const char*, const Values&...) {}
template <typename T> inline void DumpTensor(const LocalTensor<T>&, uint32_t, uint32_t) {}
template <typename T> inline void DumpTensor(const GlobalTensor<T>&, uint32_t, uint32_t) {}
inline void Trap() { twin::stop("E-TRAP", "the kernel calls Trap"); }

template <typename T> inline void SetAtomicAdd() { twin::core->atomic = twin::Atomic::ADD; }
template <typename T> inline void SetAtomicMax() { twin::core->atomic = twin::Atomic::MAX; }
template <typename T> inline void SetAtomicMin() { twin::core->atomic = twin::Atomic::MIN; }
inline void SetAtomicNone() { twin::core->atomic = twin::Atomic::NONE; }

inline int64_t ScalarGetCountOfValueOne(uint64_t value) { return __builtin_popcountll(value); }
template <int bit> inline int64_t ScalarGetCountOfValue(uint64_t value) { return bit ? __builtin_popcountll(value) : 64 - __builtin_popcountll(value); }
inline int64_t ScalarCountLeadingZero(uint64_t value) { return value ? __builtin_clzll(value) : 64; }
template <int bit> inline int64_t ScalarGetSFFValue(uint64_t value) {
  uint64_t bits = bit ? value : ~value;
  return bits ? __builtin_ctzll(bits) : -1;
}

}  // namespace AscendC

namespace twin {
struct BlockIndex {
  operator int64_t() const { return AscendC::GetBlockIdx(); }
};
}  // namespace twin
constexpr twin::BlockIndex block_idx{};  // no macro: kernels have variables of that name

inline int64_t get_block_idx() { return AscendC::GetBlockIdx(); }
inline int64_t get_block_num() { return AscendC::GetBlockNum(); }
inline int64_t get_subblockid() { return AscendC::GetSubBlockIdx(); }
inline int64_t get_subblockdim() { return AscendC::GetSubBlockNum(); }
inline int64_t get_task_ration() { return AscendC::GetTaskRation(); }
