// Synchronization between pipes, between cores, and with the data cache.
#pragma once
#include "queues.h"

namespace simulator {

struct Pair {
  int from, to;
};
constexpr Pair pipesOf(AscendC::HardEvent event) {
  using H = AscendC::HardEvent;
  switch (event) {
    case H::MTE2_MTE1: return {MTE2, MTE1};
    case H::MTE1_MTE2: return {MTE1, MTE2};
    case H::MTE1_M: return {MTE1, M};
    case H::M_MTE1: return {M, MTE1};
    case H::MTE2_V: return {MTE2, V};
    case H::V_MTE2: return {V, MTE2};
    case H::MTE3_V: return {MTE3, V};
    case H::V_MTE3: return {V, MTE3};
    case H::M_V: return {M, V};
    case H::V_M: return {V, M};
    case H::V_V: return {V, V};
    case H::MTE3_MTE1: return {MTE3, MTE1};
    case H::MTE1_MTE3: return {MTE1, MTE3};
    case H::MTE1_V: return {MTE1, V};
    case H::MTE2_M: return {MTE2, M};
    case H::M_MTE2: return {M, MTE2};
    case H::V_MTE1: return {V, MTE1};
    case H::M_FIX: return {M, FIX};
    case H::FIX_M: return {FIX, M};
    case H::MTE3_MTE2: return {MTE3, MTE2};
    case H::MTE2_MTE3: return {MTE2, MTE3};
    case H::S_V: return {S, V};
    case H::V_S: return {V, S};
    case H::S_MTE2: return {S, MTE2};
    case H::MTE2_S: return {MTE2, S};
    case H::S_MTE3: return {S, MTE3};
    case H::MTE3_S: return {MTE3, S};
    case H::MTE2_FIX: return {MTE2, FIX};
    case H::FIX_MTE2: return {FIX, MTE2};
    case H::FIX_S: return {FIX, S};
    case H::M_S: return {M, S};
    case H::FIX_MTE3: return {FIX, MTE3};
    case H::MTE1_FIX: return {MTE1, FIX};
    case H::FIX_MTE1: return {FIX, MTE1};
    case H::FIX_V: return {FIX, V};
    case H::V_FIX: return {V, FIX};
    case H::S_FIX: return {S, FIX};
    case H::S_M: return {S, M};
    case H::S_MTE1: return {S, MTE1};
    case H::MTE1_S: return {MTE1, S};
    default: return {FIX, FIX};
  }
}

inline Event& flagOf(int from, int to, int id, const char* what) {
  if (id < 0 || id >= int(chip().event_ids)) endRun("E-EVENT-ID", "%s: event ID %d is outside 0..%d", what, id, int(chip().event_ids) - 1);
  return core->events[from][to][id];
}
// Against the flow of the data: the flag says that a buffer is free again.
constexpr bool isBackwards(int from, int to) {
  return (from == V && to == MTE2) || (from == MTE3 && (to == V || to == MTE2)) || (from == MTE1 && to == MTE2) || (from == M && to == MTE1) || (from == FIX && to == M);
}
inline void setFlag(int from, int to, int id, const char* what) {
  Event& event = flagOf(from, to, id, what);
  if (event.set) endRun("E-EVENT-SET", "%s: the flag PIPE_%s to PIPE_%s, ID %d, is already set and no WaitFlag has taken it", what, pipeName(from), pipeName(to), id);
  core->raise(event, from);
}
inline void waitFlag(int from, int to, int id, const char* what) {
  Event& event = flagOf(from, to, id, what);
  if (!event.set && isEnding()) return;
  if (!event.set) endRun("E-EVENT-WAIT", "%s: the flag PIPE_%s to PIPE_%s, ID %d, is not set: the pipe waits forever", what, pipeName(from), pipeName(to), id);
  core->wait(event, to, isBackwards(from, to));
  event.set = false;
}
inline void pipeBarrier(pipe_t pipe) {
  if (pipe == PIPE_ALL) core->barrier();
  else core->barrier(int(pipe));
}

// Waits until all cores, all cores of one kind, or the given number of cores have arrived.
void meet(bool aivOnly, int64_t usedCores = 0);

}  // namespace simulator

namespace AscendC {

template <HardEvent event> inline void SetFlag(int32_t id) { simulator::setFlag(simulator::pipesOf(event).from, simulator::pipesOf(event).to, id, "SetFlag"); }
template <HardEvent event> inline void WaitFlag(int32_t id) { simulator::waitFlag(simulator::pipesOf(event).from, simulator::pipesOf(event).to, id, "WaitFlag"); }
template <pipe_t pipe> inline void PipeBarrier() { simulator::pipeBarrier(pipe); }
template <MemDsbT what> inline void DataSyncBarrier() { simulator::core->barrier(); }
template <bool isAIVOnly = true> inline void SyncAll() { simulator::meet(isAIVOnly); }
template <bool isAIVOnly = true> inline void SyncAll(const GlobalTensor<int32_t>& workspace, const LocalTensor<int32_t>& local, const int32_t usedCores = 0) {
  workspace.check(0, 32, "SyncAll");
  if (!local.allocated) simulator::endRun("E-UB-NULL", "SyncAll: the LocalTensor has no memory (it was never allocated)");
  simulator::meet(isAIVOnly, usedCores);
}
template <typename T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL> inline void DataCacheCleanAndInvalid(const GlobalTensor<T>&) { simulator::core->scalar(simulator::chip().scalar_gm_miss); }
template <typename T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL> inline void DataCacheCleanAndInvalid(const LocalTensor<T>&) { simulator::core->scalar(simulator::chip().scalar_ub); }
template <typename T> inline void DataCachePreload(const GlobalTensor<uint64_t>&, const T) {}

}  // namespace AscendC

inline void pipe_barrier(pipe_t pipe) { simulator::pipeBarrier(pipe); }
inline void set_flag(pipe_t from, pipe_t to, event_t id) { simulator::setFlag(int(from), int(to), id, "set_flag"); }
inline void wait_flag(pipe_t from, pipe_t to, event_t id) { simulator::waitFlag(int(from), int(to), id, "wait_flag"); }
