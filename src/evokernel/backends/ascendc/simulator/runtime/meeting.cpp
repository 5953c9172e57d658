// Synchronization of cores: SyncAll waits until all have arrived.
#include "meeting.h"

#include <vector>

#include "core.h"
#include "cross.h"
#include "parts.h"
#include "sync.h"
#include "writers.h"

namespace simulator {

namespace {

int64_t vectors = 0, cubes = 0;
struct Meeting {
  std::vector<Core*> there;
  uint64_t generation = 0;
  uint32_t slot = 0;
} meetings[2];  // for the vector cores, and for all cores

}  // namespace

void startMeetings(int64_t vectorBlocks, int64_t cubeBlocks) {
  vectors = vectorBlocks;
  cubes = cubeBlocks;
  for (Meeting& meeting : meetings) meeting = Meeting();
  startFlags(vectorBlocks, cubeBlocks);
}

void meet(bool aivOnly, int64_t usedCores) {
  mustRunTogether();
  run.blocksDepend = true;
  int64_t expected = usedCores > 0 ? usedCores : vectors + (aivOnly ? 0 : cubes);
  Meeting& meeting = meetings[aivOnly ? 0 : 1];
  core->barrier();
  meeting.there.push_back(core);
  if (isRecording) {
    steps().back().flags |= MEETING;
    Step step{StepKind::ARRIVE, S};
    step.slot = slotOf(meeting.slot);
    record(step);
  }
  if (int64_t(meeting.there.size()) < expected) {
    uint64_t now = meeting.generation;
    pauseUntil([&meeting, now] { return meeting.generation != now; });
    return;
  }
  double latest = 0;
  for (Core* one : meeting.there) latest = std::max(latest, one->time[S]);
  for (Core* one : meeting.there) {
    for (double& time : one->time) time = latest + chip().sync_all;
    if (!isRecording) continue;
    Step step{StepKind::LEAVE, S};
    step.slot = meeting.slot;
    recordFor(*one, step);
  }
  if (expected == vectors + cubes) {
    callParts().meetings++;
    noteMeeting(meeting.there);
    callParts().isWrittenEarly |= callParts().isOutputWritten;
    callParts().dependsOtherwise = false;
  } else {
    callParts().dependsOtherwise = true;
  }
  meeting.slot = 0;
  meeting.there.clear();
  meeting.generation++;
  blocksMet();
  enterPhase();
}

}  // namespace simulator
