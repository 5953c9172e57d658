// Level hardware: copies from local to global memory that may still be reading. A write that nothing orders after such a copy, and that begins before the copy
// has read the bytes, changes what the copy takes to global memory.
// A copy reads its bytes evenly from its start until the next copy of its pipe can start; then its data are on the way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simulator {

struct StridedBytes {  // ranges of equal length
  uint64_t start, count, length, pitch;
};

struct PendingCopy {
  StridedBytes local, global;  // offsets in the local memories; addresses of the data
  uint32_t epoch;      // of its pipe
  double start, end;   // while it reads
  bool combines;       // with an atomic operation
};

class PendingCopies {
 public:
  void add(const PendingCopy& copy);
  bool isEmpty() const { return copies.empty(); }
  void clear();
  // A write by a pipe that knows this epoch of the copies. Returns whether a copy takes bytes of it.
  bool overwrite(uint32_t known, double begins, uint64_t address, uint64_t bytes);
  // After the write: takes these bytes to global memory.
  void repeat(const uint8_t* local);

 private:
  struct Piece {
    uint64_t local, global, bytes;
  };
  static constexpr size_t MOST = 256;  // copies; the older half of them counts as complete
  std::vector<PendingCopy> copies;     // in the order of their pipe
  std::vector<Piece> pieces;           // to repeat
  bool isStoredAgain(size_t after, uint64_t global, uint64_t bytes) const;
};

}  // namespace simulator
