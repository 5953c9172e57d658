// System queries of a kernel, and the macros of every kernel.
#pragma once
#include "sync.h"

#define TILING_KEY_IS(key) (::simulator::run.tilingKey == uint64_t(key))
#define TILING_KEY_VAR (::simulator::run.tilingKey)
// The struct's name comes in two parts, because a compiler ignores a precompiled header that uses a macro of the command line.
#define GET_TILING_DATA(name, pointer) SIMULATOR_TILING_##STRUCT name = ::simulator::tilingAs<SIMULATOR_TILING_##STRUCT>(pointer)
#define GET_TILING_DATA_WITH_STRUCT(type, name, pointer) type name = ::simulator::tilingAs<type>(pointer)
#define GET_TILING_DATA_MEMBER(type, member, name, pointer) auto name = ::simulator::tilingAs<type>(pointer).member
#define GET_TILING_DATA_PTR_WITH_STRUCT(type, name, pointer) \
  type name##Held = ::simulator::tilingAs<type>(pointer);         \
  const type* name = &name##Held
#define REGISTER_TILING_DEFAULT(type)
#define REGISTER_TILING_FOR_TILINGKEY(key, type)
#define COPY_TILING_WITH_STRUCT(type, pointer, name) type name = ::simulator::tilingAs<type>(pointer)
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#define ENABLE_PRINTF()
// Assertions exist only in CANN's debug builds. Kernels also use them inside a statement.
#define ASSERT(...)
#define ASCENDC_ASSERT(...)
#define ASCENDC_DEBUG_ASSERT(...)
// A kernel that chooses code by the core at compile time is compiled once for each kind of core.
#ifdef SIMULATOR_CORE
constexpr int32_t g_coreType = SIMULATOR_CORE == 2 ? int32_t(AscendC::AIC) : int32_t(AscendC::AIV);
#define ASCEND_IS_AIV constexpr(g_coreType == int32_t(AscendC::AIV))
#define ASCEND_IS_AIC constexpr(g_coreType == int32_t(AscendC::AIC))
#else
#define ASCEND_IS_AIV (!::simulator::core->isCube)
#define ASCEND_IS_AIC (::simulator::core->isCube)
#define g_coreType (::simulator::core->isCube ? int(AscendC::AIC) : int(AscendC::AIV))
#endif
#define DTYPE_UNKNOWN float

namespace simulator {

// The tiling data is in global memory, and the first lines of the kernel copy it.
template <typename T> inline T tilingAs(const uint8_t* seen) {
  const Region* region = regionAt(reinterpret_cast<uintptr_t>(seen));
  if (!region || region->high - region->low < sizeof(T))
    endRun("E-TILING-STRUCT", "GET_TILING_DATA: the struct has %zu bytes, but the tiling data has %ld", sizeof(T), region ? long(region->high - region->low) : 0);
  T copied;
  memcpy(&copied, reinterpret_cast<const void*>(region->low), sizeof(T));
  core->scalar(chip().scalar_gm_miss);
  return copied;
}

}  // namespace simulator

namespace AscendC {

inline int64_t GetBlockIdx() { return simulator::core->blockIndex; }
inline int64_t GetBlockNum() { return simulator::run.blockCount; }
inline int64_t GetSubBlockIdx() { return simulator::core->subBlock; }
inline int64_t GetSubBlockNum() { return simulator::run.isMix ? 2 : 1; }
inline int64_t GetTaskRation() { return simulator::run.isMix ? 2 : 1; }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
inline int64_t GetProgramCounter() { return 0; }
inline int64_t GetSystemCycle() { return int64_t(simulator::core->time[simulator::S]); }
inline uint64_t GetArchVersion() { return 2201; }
inline void InitSocState() {}
inline void SetSysWorkspace(GM_ADDR) {}
inline void SetSysWorkspaceForce(GM_ADDR) {}
inline GM_ADDR GetSysWorkSpacePtr() {
  simulator::needsSystemWorkspace("GetSysWorkSpacePtr");
  return simulator::run.workspace;
}
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) {
  return simulator::needsSystemWorkspace("GetUserWorkspace") ? simulator::run.workspace + simulator::SYSTEM_WORKSPACE : workspace;
}
inline void OOMInit() {}
// Templates, so that overload resolution prefers them over printf of C.
template <typename... Values> inline void printf(const char*, const Values&...) {}
template <typename... Values> inline void PRINTF(const char*, const Values&...) {}
template <typename T> inline void DumpTensor(const LocalTensor<T>&, uint32_t, uint32_t) {}
template <typename T> inline void DumpTensor(const GlobalTensor<T>&, uint32_t, uint32_t) {}
inline void Trap() { simulator::endRun("E-TRAP", "the kernel calls Trap"); }

template <typename T> inline void SetAtomicAdd() { simulator::core->atomic = simulator::Atomic::ADD; }
template <typename T> inline void SetAtomicMax() { simulator::core->atomic = simulator::Atomic::MAX; }
template <typename T> inline void SetAtomicMin() { simulator::core->atomic = simulator::Atomic::MIN; }
inline void SetAtomicNone() { simulator::core->atomic = simulator::Atomic::NONE; }

inline int64_t ScalarGetCountOfValueOne(uint64_t value) { return __builtin_popcountll(value); }
template <int bit> inline int64_t ScalarGetCountOfValue(uint64_t value) { return bit ? __builtin_popcountll(value) : 64 - __builtin_popcountll(value); }
inline int64_t ScalarCountLeadingZero(uint64_t value) { return value ? __builtin_clzll(value) : 64; }
template <int bit> inline int64_t ScalarGetSFFValue(uint64_t value) {
  uint64_t bits = bit ? value : ~value;
  return bits ? __builtin_ctzll(bits) : -1;
}

}  // namespace AscendC

namespace simulator {
struct BlockIndex {
  operator int64_t() const { return AscendC::GetBlockIdx(); }
};
}  // namespace simulator
constexpr simulator::BlockIndex block_idx{};  // not a macro, because kernels have variables of that name

inline int64_t get_block_idx() { return AscendC::GetBlockIdx(); }
inline int64_t get_block_num() { return AscendC::GetBlockNum(); }
inline int64_t get_subblockid() { return AscendC::GetSubBlockIdx(); }
inline int64_t get_subblockdim() { return AscendC::GetSubBlockNum(); }
inline int64_t get_task_ration() { return AscendC::GetTaskRation(); }
