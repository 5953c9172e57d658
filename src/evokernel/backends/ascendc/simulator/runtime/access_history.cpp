#include "access_history.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core.h"

namespace simulator {

namespace {

template <typename T> T* allocate(uint32_t count) {
  void* memory = calloc(count, sizeof(T));
  if (!memory) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

uint32_t latest(const uint32_t* epochs, uint32_t count) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; i++) most = std::max(most, epochs[i]);
  return most;
}

}  // namespace

AccessHistory::AccessHistory(uint32_t blocks)
    : writer(allocate<uint8_t>(blocks)), written(allocate<uint32_t>(blocks)), done(allocate<double>(blocks)), readers(allocate<uint8_t>(blocks)) {
  for (uint32_t*& epochs : read) epochs = allocate<uint32_t>(blocks);
  memset(writer, PIPES, blocks);
}

AccessHistory::~AccessHistory() {
  free(writer);
  free(written);
  free(done);
  free(readers);
  for (uint32_t* epochs : read) free(epochs);
}

void AccessHistory::clear(uint32_t first, uint32_t end) {
  memset(writer + first, PIPES, end - first);
  memset(readers + first, 0, end - first);
}

int AccessHistory::conflictingWriter(int pipe, const uint32_t (&clock)[PIPES], uint32_t block) const {
  int other = writer[block];
  return other == PIPES || ordered(other, pipe) || clock[other] >= written[block] ? PIPES : other;
}

bool AccessHistory::conflictsWithRead(int pipe, int reader, const uint32_t (&clock)[PIPES], uint32_t block) const {
  return (readers[block] >> reader & 1) && !ordered(reader, pipe) && clock[reader] < read[reader][block];
}

bool AccessHistory::hasConflict(int pipe, const uint32_t (&clock)[PIPES], uint32_t first, uint32_t count, bool writes) const {
  if (pipe == S) return false;
  int only = writer[first];
  if (!memcmp(writer + first, writer + first + 1, count - 1)) {  // all equal
    if (only != PIPES && !ordered(only, pipe) && clock[only] < latest(written + first, count)) return true;
  } else {
    for (uint32_t block = first; block < first + count; block++)
      if (conflictingWriter(pipe, clock, block) != PIPES) return true;
  }
  if (!writes) return false;
  uint8_t any = 0;
  for (uint32_t block = first; block < first + count; block++) any |= readers[block];
  for (int reader = 0; reader < PIPES; reader++) {
    if (!(any >> reader & 1) || ordered(reader, pipe)) continue;
    if (clock[reader] >= latest(read[reader] + first, count)) continue;  // epochs of earlier reads, too, are no later
    for (uint32_t block = first; block < first + count; block++)
      if (conflictsWithRead(pipe, reader, clock, block)) return true;
  }
  return false;
}

void AccessHistory::addRead(int pipe, uint32_t epoch, uint32_t first, uint32_t count) {
  uint8_t bit = uint8_t(1u << pipe);
  for (uint32_t block = first; block < first + count; block++) readers[block] |= bit;
  std::fill_n(read[pipe] + first, count, epoch);
}

void AccessHistory::addWrite(int pipe, uint32_t epoch, uint32_t first, uint32_t count) {
  memset(writer + first, pipe, count);
  memset(readers + first, 0, count);
  std::fill_n(written + first, count, epoch);
}

// ---- accesses of a core

void Core::touch(int pipe, uint32_t address, uint64_t bytes, bool writes, const char* what) {
  if (!bytes) return;
  uint32_t first = address / BLOCK, count = uint32_t((address + bytes - 1) / BLOCK) - first + 1;
  if (checksLess) {
    if (writes && run.isDry) touchDry(pipe, first, count, address, bytes);
    else if (writes) used(address, bytes);
    return;
  }
  if (__builtin_expect(history.hasConflict(pipe, clock[pipe], first, count, writes), 0))
    for (uint32_t block = first; block < first + count; block++) reportConflicts(pipe, block, writes, what);
  if (writes) {
    if (level == HARDWARE) {
      for (uint32_t block = first; block < first + count; block++) keepBefore(block);
      std::fill_n(history.done + first, count, finished(pipe));
      if (!pendingCopies.isEmpty()) overwritePending(pipe, address, bytes);
    }
    history.addWrite(pipe, epoch[pipe], first, count);
    memset(known + address, 1, bytes);
  } else {
    history.addRead(pipe, epoch[pipe], first, count);
  }
  used(address, bytes);
}

void Core::overwritePending(int pipe, uint32_t address, uint64_t bytes) {
  if (ordered(pipe, MTE3)) return;
  double begins = started[pipe] + (pipe == MTE2 ? chip().copy(0) : 0);  // the first bytes of a copy in arrive after the memory latency
  if (pendingCopies.overwrite(clock[pipe][MTE3], begins, address, bytes)) isUnsettled = true;
}

void Core::touchDry(int pipe, uint32_t first, uint32_t count, uint32_t address, uint64_t bytes) {
  memset(history.writer + first, pipe, count);
  uint32_t start = std::max(address, knownLow), end = std::min(uint32_t(address + bytes), knownHigh);
  if (start < end) memset(known + start, 0, end - start);
  used(address, bytes);
}

void Core::reportConflicts(int pipe, uint32_t block, bool writes, const char* what) {
  int writer = history.conflictingWriter(pipe, clock[pipe], block);
  if (writer != PIPES) {
    race(pipe, writer, block, writes, true, what);
    if (!writes && started[pipe] < history.done[block]) showStale(block);
  }
  for (int reader = 0; writes && reader < PIPES; reader++)
    if (history.conflictsWithRead(pipe, reader, clock[pipe], block)) race(pipe, reader, block, true, false, what);
}

}  // namespace simulator
