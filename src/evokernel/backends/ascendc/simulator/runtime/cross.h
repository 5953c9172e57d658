// Flags between cores: of one kind, of the two vector cores of a block, or between a block's cube core and its vector cores.
#pragma once
#include "sync.h"

namespace twin {

void startFlags(int64_t vectorBlocks, int64_t cubeBlocks);

// mode 0: all cores of this kind; 1: the two vector cores of a block; 2: the block's cube core and its vector cores.
void setCross(int mode, int pipe, int flag, const char* what);
void waitCross(int pipe, int flag, const char* what);

// A block that passes a mark on to one other block.
void setMark(uintptr_t place, int64_t block, int64_t event);
void waitMark(uintptr_t place, int64_t block, int64_t event);

// Blocks that take turns.
void waitTurn();
void passTurn();

}  // namespace twin

namespace AscendC {

template <uint8_t modeId, pipe_t pipe> inline void CrossCoreSetFlag(uint16_t flagId) {
  twin::setCross(modeId, int(pipe), flagId, "CrossCoreSetFlag");
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S> inline void CrossCoreWaitFlag(uint16_t flagId) {
  twin::waitCross(int(pipe), flagId, "CrossCoreWaitFlag");
}
template <pipe_t pipe> inline void NotifyEvent(uint16_t flagId) { twin::setCross(2, int(pipe), flagId, "NotifyEvent"); }
inline void WaitEvent(uint16_t flagId) { twin::waitCross(twin::S, flagId, "WaitEvent"); }

template <bool isAIVOnly = true>
inline void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID) {
  gmWorkspace.check((int64_t(blockIdx) + int64_t(eventID) * twin::run.blockCount) * 32, 32, "IBSet");
  if (!ubWorkspace.allocated) twin::stop("E-UB-NULL", "IBSet: a LocalTensor that was never allocated");
  twin::setMark(gmWorkspace.base, blockIdx, eventID);
}
template <bool isAIVOnly = true>
inline void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID) {
  gmWorkspace.check((int64_t(blockIdx) + int64_t(eventID) * twin::run.blockCount) * 32, 32, "IBWait");
  if (!ubWorkspace.allocated) twin::stop("E-UB-NULL", "IBWait: a LocalTensor that was never allocated");
  twin::waitMark(gmWorkspace.base, blockIdx, eventID);
}

inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace) {
  gmWorkspace.check(0, uint64_t(twin::run.blockCount) * 32, "InitDetermineComputeWorkspace");
  if (!ubWorkspace.allocated) twin::stop("E-UB-NULL", "InitDetermineComputeWorkspace: a LocalTensor that was never allocated");
}
inline void WaitPreBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&) { twin::waitTurn(); }
inline void NotifyNextBlock(GlobalTensor<int32_t>&, LocalTensor<int32_t>&) { twin::passTurn(); }

}  // namespace AscendC

// The number holds the mode in bits 4 to 5 and the flag from bit 8 on.
inline void ffts_cross_core_sync(pipe_t pipe, uint64_t config) {
  twin::setCross(int((config >> 4) & 3), int(pipe), int((config >> 8) & 15), "ffts_cross_core_sync");
}
inline void wait_flag_dev(int64_t flag) { twin::waitCross(twin::S, int(flag), "wait_flag_dev"); }
inline void set_ffts_base_addr(uint64_t) {}
