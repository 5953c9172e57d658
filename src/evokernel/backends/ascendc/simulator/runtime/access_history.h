// The accesses to the blocks of 32 bytes of a core's local memories: the last write of each, and the reads since then, as epochs of the pipes.
// One array per property, because an instruction touches many neighbouring blocks in the same way.
#pragma once
#include <cstdint>

namespace simulator {

enum Pipe : int { S, V, MTE2, MTE3, MTE1, M, FIX, PIPES };

class AccessHistory {
 public:
  explicit AccessHistory(uint32_t blocks);
  ~AccessHistory();
  AccessHistory(const AccessHistory&) = delete;
  void clear(uint32_t first, uint32_t end);

  // Whether a pipe that knows these epochs of the others would access a block before they are done with it.
  bool hasConflict(int pipe, const uint32_t (&clock)[PIPES], uint32_t first, uint32_t count, bool writes) const;
  void addRead(int pipe, uint32_t epoch, uint32_t first, uint32_t count);
  void addWrite(int pipe, uint32_t epoch, uint32_t first, uint32_t count);

  // Of one block: the pipe whose write conflicts, and whether a read of this pipe does.
  int conflictingWriter(int pipe, const uint32_t (&clock)[PIPES], uint32_t block) const;
  bool conflictsWithRead(int pipe, int reader, const uint32_t (&clock)[PIPES], uint32_t block) const;

  uint8_t* writer;    // PIPES if nothing wrote the block
  uint32_t* written;  // the epoch of the write
  double* done;       // when the write is complete; recorded where reads may come too early without an error

 private:
  uint8_t* readers;        // a bit for each pipe that read the block since the last write
  uint32_t* read[PIPES];   // the epoch of its last read
};

// The order that the compiler guarantees: everything with the scalar pipe, and each pipe with itself.
inline bool ordered(int one, int other) { return one == S || other == S || one == other; }

}  // namespace simulator
