// Elements that were never written may be computed with, as long as nobody uses what comes out: a tile's tail is, where an instruction takes whole
// blocks. What is made from such an element counts as never written itself, and breaks the rule where it leaves: in a copy, a sum, a scalar read.
// A source whose very first element was never written is no tail, and breaks the rule at once.
#pragma once
#include "lanes.h"

namespace twin {

template <typename T> inline bool isKnown(const AscendC::LocalTensor<T>& tensor, uint64_t index) {
  return !memchr(core->known + tensor.address + index * sizeof(T), 0, sizeof(T));
}

class Doubt {
 public:
  template <typename T> void source(const AscendC::LocalTensor<T>& tensor, uint64_t count, const char* what) {
    if (!asks([&] { twin::source(V, tensor, count * sizeof(T), what); }, tensor)) return;
    marks.resize(count);
    for (uint64_t i = 0; i < count; i++) marks[i] |= !isKnown(tensor, i);
  }
  template <typename T> void target(const AscendC::LocalTensor<T>& tensor, uint64_t count, const char* what) {
    twin::target(V, tensor, count * sizeof(T), what);
    for (uint64_t i = 0; i < marks.size(); i++)
      if (marks[i]) forget(tensor, i);
  }

  // By mask and repeats. Nothing is carried from one repeat to the next: an instruction that adds up in place has to start from what was written.
  template <typename T> void source(const AscendC::LocalTensor<T>& tensor, const Work& work, Stride by, int width, const char* what) {
    if (!asks([&] { lanesOperand(tensor, work, by, false, what); }, tensor)) return;
    marks.resize(size_t(work.repeats) * size_t(width));
    each(work, width, [&](int r, int lane, size_t at) { marks[at] |= !isKnown(tensor, element<T>(r, lane, by)); });
  }
  template <typename T> void target(const AscendC::LocalTensor<T>& tensor, const Work& work, Stride by, int width, const char* what) {
    lanesOperand(tensor, work, by, true, what);
    if (marks.empty()) return;
    each(work, width, [&](int r, int lane, size_t at) {
      if (marks[at]) forget(tensor, element<T>(r, lane, by));
    });
  }

  // For those who know themselves what becomes of which element: whether some are in doubt, and which ones of the result.
  template <typename T> bool finds(const AscendC::LocalTensor<T>& tensor, uint64_t bytes, const char* what) {
    return asks([&] { twin::source(V, tensor, bytes, what); }, tensor);
  }
  void mark(uint64_t count, uint64_t index) {
    marks.resize(count);
    marks[index] = 1;
  }

  // The same where `head` is what must have been written, of several operands that lie apart.
  template <typename T> bool finds(const AscendC::LocalTensor<T>& tensor, const AscendC::LocalTensor<T>& head, uint64_t bytes, const char* what) {
    return asks([&] { twin::source(V, tensor, bytes, what); }, head);
  }

  // One bit per element: a byte is in doubt when all of its elements are.
  template <typename U> void bits(const AscendC::LocalTensor<U>& tensor) {
    for (size_t byte = 0; byte < marks.size() / 8; byte++)
      if (std::all_of(&marks[8 * byte], &marks[8 * byte] + 8, [](uint8_t mark) { return mark; })) core->known[tensor.address + byte] = 0;
  }

  // Bytes move within local memory as they are.
  template <typename T>
  void moves(int pipe, const AscendC::LocalTensor<T>& from, const AscendC::LocalTensor<T>& to, uint64_t bytes, const char* what) {
    if (asks([&] { twin::source(pipe, from, bytes, what); }, from)) marks.assign(core->known + from.address, core->known + from.address + bytes);
    twin::target(pipe, to, bytes, what);
    if (!marks.empty()) memcpy(core->known + to.address, marks.data(), bytes);
    memmove(to.data(), from.data(), bytes);
  }
  template <typename T> static void forget(const AscendC::LocalTensor<T>& tensor, uint64_t index) {
    memset(core->known + tensor.address + index * sizeof(T), 0, sizeof(T));
  }

 private:
  std::vector<uint8_t> marks;  // of elements in doubt; empty while there are none

  template <typename F, typename T> bool asks(F asking, const AscendC::LocalTensor<T>& tensor) {
    struct Tolerance {
      Tolerance() { core->tolerates = true, core->doubtful = false; }
      ~Tolerance() { core->tolerates = false; }
    };
    if (level == FAST || !tensor.allocated || !core->known[tensor.address]) {
      asking();
      return false;
    }
    Tolerance tolerance;
    asking();
    return __builtin_expect(core->doubtful, 0);
  }
  template <typename F> static void each(const Work& work, int width, F f) {
    for (int r = 0; r < work.repeats; r++)
      for (int lane = 0; lane < width; lane++)
        if (work.of(r).on(lane)) f(r, lane, size_t(r) * size_t(width) + size_t(lane));
  }
};

}  // namespace twin
