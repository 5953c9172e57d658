// Flags between cores: of one kind, of the two vector cores of a block, or between a block's cube core and its vector cores.
#pragma once
#include "sync.h"

namespace simulator {

void startFlags(int64_t vectorBlocks, int64_t cubeBlocks);

// mode 0: all cores of this kind; 1: the two vector cores of a block; 2: the block's cube core and its vector cores.
void setCross(int mode, int pipe, int flag, const char* what);
void waitCross(int pipe, int flag, const char* what);

// A block that signals one other block.
void setMark(uintptr_t place, int64_t block, int64_t event);
void waitMark(uintptr_t place, int64_t block, int64_t event);

// Blocks that run in turn.
void waitTurn();
void passTurn();

}  // namespace simulator

namespace AscendC {

template <uint8_t modeId, pipe_t pipe> inline void CrossCoreSetFlag(uint16_t flagId) {
  simulator::setCross(modeId, int(pipe), flagId, "CrossCoreSetFlag");
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S> inline void CrossCoreWaitFlag(uint16_t flagId) {
  simulator::waitCross(int(pipe), flagId, "CrossCoreWaitFlag");
}
template <pipe_t pipe> inline void NotifyEvent(uint16_t flagId) { simulator::setCross(2, int(pipe), flagId, "NotifyEvent"); }
inline void WaitEvent(uint16_t flagId) { simulator::waitCross(simulator::S, flagId, "WaitEvent"); }

template <bool isAIVOnly = true>
inline void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID) {
  gmWorkspace.check((int64_t(blockIdx) + int64_t(eventID) * simulator::run.blockCount) * 32, 32, "IBSet");
  if (!ubWorkspace.allocated) simulator::endRun("E-UB-NULL", "IBSet: the LocalTensor has no memory (it was never allocated)");
  simulator::setMark(gmWorkspace.base, blockIdx, eventID);
}
template <bool isAIVOnly = true>
inline void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID) {
  gmWorkspace.check((int64_t(blockIdx) + int64_t(eventID) * simulator::run.blockCount) * 32, 32, "IBWait");
  if (!ubWorkspace.allocated) simulator::endRun("E-UB-NULL", "IBWait: the LocalTensor has no memory (it was never allocated)");
  simulator::waitMark(gmWorkspace.base, blockIdx, eventID);
}

inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace) {
  gmWorkspace.check(0, uint64_t(simulator::run.blockCount) * 32, "InitDetermineComputeWorkspace");
  if (!ubWorkspace.allocated) simulator::endRun("E-UB-NULL", "InitDetermineComputeWorkspace: the LocalTensor has no memory (it was never allocated)");
}
inline void WaitPreBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&) { simulator::waitTurn(); }
inline void NotifyNextBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&) { simulator::passTurn(); }

}  // namespace AscendC

// The argument has the mode in bits 4 to 5 and the flag in the bits from 8.
inline void ffts_cross_core_sync(pipe_t pipe, uint64_t config) {
  simulator::setCross(int((config >> 4) & 3), int(pipe), int((config >> 8) & 15), "ffts_cross_core_sync");
}
inline void wait_flag_dev(int64_t flag) { simulator::waitCross(simulator::S, int(flag), "wait_flag_dev"); }
inline void set_ffts_base_addr(uint64_t) {}
