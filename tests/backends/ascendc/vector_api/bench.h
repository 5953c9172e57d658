// A bench for one vector instruction: inputs lie in local memory, a case runs, and its output is read back.
#pragma once
#include <map>
#include <string>

#include "builtins.h"
#include "dequant.h"
#include "gather.h"
#include "operators.h"
#include "queues.h"
#include "sort.h"
#include "sync.h"

namespace bench {

using namespace AscendC;

constexpr uint32_t SLOT = 24 * 1024;  // bytes of each operand; the output lies in the last slot
constexpr int SLOTS = 7;

struct Call {
  const int64_t* p;  // the case's own numbers
  uint8_t* global;   // as many bytes of global memory as a slot has; at first it holds the first input
  template <typename T> LocalTensor<T> at(int slot) const { return LocalTensor<T>(TPosition::VECCALC, uint32_t(slot) * SLOT, SLOT / uint32_t(sizeof(T))); }
  template <typename T> LocalTensor<T> in(int slot) const { return at<T>(slot); }
  template <typename T> LocalTensor<T> out() const { return at<T>(SLOTS - 1); }
  template <typename T> LocalTensor<T> work() const { return at<T>(SLOTS - 2); }
};

using Case = void (*)(const Call&);
std::map<std::string, Case>& cases();

struct Added {
  Added(const char* name, Case run) { cases()[name] = run; }
};

}  // namespace bench

// A case by name, with `c` as its call; and one for each of two types.
#define CASE(NAME)                                    \
  static void NAME(const bench::Call& c);             \
  static const bench::Added added_##NAME(#NAME, NAME); \
  static void NAME([[maybe_unused]] const bench::Call& c)
#define CASE_T(NAME)                                                            \
  template <typename T> static void NAME(const bench::Call& c);                 \
  static const bench::Added added_f32_##NAME(#NAME ":float32", NAME<float>);    \
  static const bench::Added added_f16_##NAME(#NAME ":float16", NAME<half>);     \
  template <typename T> static void NAME([[maybe_unused]] const bench::Call& c)
