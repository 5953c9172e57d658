// A kernel may compute with uninitialized elements if it does not use the results: this happens in the tail of a tile when an instruction processes complete
// blocks. A result of such an element counts as uninitialized and violates the rule where it is used: in a copy out, a sum, or a scalar read.
// A source whose first element is uninitialized is not a tail, and violates the rule at once.
#pragma once
#include "lanes.h"

namespace simulator {

template <typename T> inline bool isKnown(const AscendC::LocalTensor<T>& tensor, uint64_t index) {
  return !memchr(core->known + tensor.address + index * sizeof(T), 0, sizeof(T));
}

class Doubt {
 public:
  template <typename T> void source(const AscendC::LocalTensor<T>& tensor, uint64_t count, const char* what) {
    if (!asks([&] { simulator::source(V, tensor, count * sizeof(T), what); }, tensor)) return;
    marks.resize(count);
    for (uint64_t i = 0; i < count; i++) marks[i] |= !isKnown(tensor, i);
  }
  template <typename T> void target(const AscendC::LocalTensor<T>& tensor, uint64_t count, const char* what) {
    simulator::target(V, tensor, count * sizeof(T), what);
    for (uint64_t i = 0; i < marks.size(); i++)
      if (marks[i]) forget(tensor, i);
  }

  // By mask and repeats. Doubt does not carry from one repeat to the next: an instruction that accumulates in place must start from initialized data.
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

  // For callers that map elements to results themselves: whether some elements are in doubt, and which elements of the result.
  template <typename T> bool finds(const AscendC::LocalTensor<T>& tensor, uint64_t bytes, const char* what) {
    return asks([&] { simulator::source(V, tensor, bytes, what); }, tensor);
  }
  template <typename T> bool finds(int pipe, const AscendC::LocalTensor<T>& tensor, uint64_t bytes, const char* what, uint32_t alignment) {
    return asks([&] { simulator::source(pipe, tensor, bytes, what, alignment); }, tensor);
  }
  void mark(uint64_t count, uint64_t index) {
    marks.resize(count);
    marks[index] = 1;
  }

  // The same for several separate operands, where `head` must be initialized.
  template <typename T> bool finds(const AscendC::LocalTensor<T>& tensor, const AscendC::LocalTensor<T>& head, uint64_t bytes, const char* what) {
    return asks([&] { simulator::source(V, tensor, bytes, what); }, head);
  }

  // One bit per element: a byte is in doubt when all of its elements are.
  template <typename U> void bits(const AscendC::LocalTensor<U>& tensor) {
    for (size_t byte = 0; byte < marks.size() / 8; byte++)
      if (std::all_of(&marks[8 * byte], &marks[8 * byte] + 8, [](uint8_t mark) { return mark; })) core->known[tensor.address + byte] = 0;
  }

  // Copies the marks of bytes that move within local memory.
  template <typename T>
  void moves(int pipe, const AscendC::LocalTensor<T>& from, const AscendC::LocalTensor<T>& to, uint64_t bytes, const char* what) {
    if (asks([&] { simulator::source(pipe, from, bytes, what); }, from)) marks.assign(core->known + from.address, core->known + from.address + bytes);
    simulator::target(pipe, to, bytes, what);
    if (!marks.empty()) memcpy(core->known + to.address, marks.data(), bytes);
    if (isDry()) return;
    memmove(to.data(), from.data(), bytes);
  }
  template <typename T> static void forget(const AscendC::LocalTensor<T>& tensor, uint64_t index) {
    memset(core->known + tensor.address + index * sizeof(T), 0, sizeof(T));
  }

 private:
  std::vector<uint8_t> marks;  // marks of elements in doubt; empty if there are none

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

}  // namespace simulator
