// Shared code of the library functions: scratch memory, rules, and loops that apply a formula to every element.
#pragma once
#include "queues.h"
#include "vector.h"

namespace simulator {

// The cost of a library function. Cycles per repeat and instruction counts follow from the documented algorithm; they are not measured.
struct Recipe {
  const char* name;
  double cycles;  // of all its vector instructions, per repeat of 256 bytes
  int instructions;
  int wide, narrow;  // simultaneous scratch tensors: for float, and for two-byte types
  bool rereads;      // reads the source after writing to the destination, so it cannot work in place
};

template <typename T, typename U>
inline bool overlap(const AscendC::LocalTensor<T>& one, uint64_t oneBytes, const AscendC::LocalTensor<U>& other, uint64_t otherBytes) {
  return oneBytes && otherBytes && one.address < other.address + otherBytes && other.address < one.address + oneBytes;
}

// Source and destination must be separate or, if the algorithm allows it, identical.
template <typename D, typename T>
inline void apart(const AscendC::LocalTensor<D>& dst, uint64_t dstBytes, const AscendC::LocalTensor<T>& src, uint64_t srcBytes,
                  bool sameAllowed, const char* what) {
  if (!overlap(dst, dstBytes, src, srcBytes)) return;
  bool same = dst.address == src.address;
  if (same && sameAllowed) return;
  reportViolation("E-LIB-OVERLAP", "%s: destination and source %s, and the function reads the source after writing the destination", what,
         same ? "are the same memory" : "partly overlap");
}

// The documentation allows few library functions in place. If the algorithm works in place anyway, the simulator notes it and continues.
template <typename T> inline void inPlace(const Recipe& recipe, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src) {
  if (__builtin_expect(dst.address != src.address, 1)) return;
  for (const char* documented : {"Gelu", "FasterGelu", "FasterGeluV2", "Trunc", "Round"})
    if (!strcmp(documented, recipe.name)) return;
  addNote("W-LIB-OVERLAP", "%s is used in place, which its documentation does not allow", recipe.name);
}

// Scratch memory passed by the caller.
inline uint64_t scratch(const AscendC::LocalTensor<uint8_t>& buffer, uint64_t least, const char* what) {
  if (!buffer.allocated && !least) {
    addNote("W-LIB-TMP", "%s gets a temporary buffer without memory, and needs none for this type and shape", what);
    return 0;
  }
  if (!buffer.allocated) endRun("E-LIB-TMP", "%s: the shared temporary buffer has no memory (it was never allocated)", what);
  uint64_t has = buffer.address < buffer.high ? buffer.high - buffer.address : 0;
  if (has < least)
    reportViolation("E-LIB-TMP", "%s needs a temporary buffer of at least %llu bytes, but gets %llu", what, (unsigned long long)least,
           (unsigned long long)has);
  uint64_t touched = std::min(has, least);
  if (touched) target(V, buffer, touched, what);
  return has;
}
// Scratch memory that the library takes from the free part of UB.
inline uint64_t scratch(uint64_t least, const char* what) {
  uint64_t used = core->top[UB] - SPACE_START[UB], left = used < chip().ub_bytes ? uint64_t(chip().ub_bytes) - used : 0;
  if (left < least)
    reportViolation("E-LIB-TMP", "%s without a temporary buffer needs %llu bytes of free UB, but InitBuffer left only %llu", what,
           (unsigned long long)least, (unsigned long long)left);
  return left;
}

// A function processes as many elements at a time as its scratch memory holds, and issues all its instructions for each piece.
template <typename T> inline void recipeCost(const Recipe& recipe, uint64_t count, uint64_t scratchBytes) {
  int tensors = sizeof(T) == 4 ? recipe.wide : recipe.narrow;
  uint64_t wanted = count * sizeof(T) * uint64_t(tensors);
  uint64_t pieces = tensors && scratchBytes ? (wanted + scratchBytes - 1) / scratchBytes : 1;
  int instructions = recipe.instructions * int(std::max<uint64_t>(pieces, 1));
  vectorCost(count * sizeof(T), recipe.cycles, instructions);
}
template <typename T> inline uint64_t leastScratch(const Recipe& recipe) {
  return 256ull * uint64_t(sizeof(T) == 4 ? recipe.wide : recipe.narrow);
}

template <typename T, typename F>
inline void element1(const Recipe& recipe, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint64_t scratchBytes,
                     uint64_t count, F f) {
  if (nothing(int64_t(count), recipe.name)) return;
  uint64_t bytes = count * sizeof(T);
  recipeCost<T>(recipe, count, scratchBytes);
  Doubt doubt;
  doubt.source(src, count, recipe.name);
  doubt.target(dst, count, recipe.name);
  apart(dst, bytes, src, bytes, !recipe.rereads, recipe.name);
  inPlace(recipe, dst, src);
  T* to = dst.data();
  const T* from = src.data();
  for (uint64_t i = 0; i < count; i++) to[i] = T(f(float(from[i])));
}
template <typename T, typename F>
inline void element2(const Recipe& recipe, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& one,
                     const AscendC::LocalTensor<T>& other, uint64_t scratchBytes, uint64_t count, F f) {
  if (nothing(int64_t(count), recipe.name)) return;
  uint64_t bytes = count * sizeof(T);
  recipeCost<T>(recipe, count, scratchBytes);
  Doubt doubt;
  doubt.source(one, count, recipe.name);
  doubt.source(other, count, recipe.name);
  doubt.target(dst, count, recipe.name);
  apart(dst, bytes, one, bytes, !recipe.rereads, recipe.name);
  apart(dst, bytes, other, bytes, !recipe.rereads, recipe.name);
  inPlace(recipe, dst, one);
  inPlace(recipe, dst, other);
  T* to = dst.data();
  const T* a = one.data();
  const T* b = other.data();
  for (uint64_t i = 0; i < count; i++) to[i] = T(f(a[i], b[i]));
}

struct NoConfig {};  // some functions have a configuration, which does not change the formula
constexpr NoConfig NO_CONFIG{};

}  // namespace simulator

// The public overloads of a function of one tensor: with or without a temporary buffer, on a count or on the complete source.
#define SIMULATOR_LIBRARY_COUNT(NAME, TYPES, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS, FORMULA)                         \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                             \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
                   const uint32_t count) {                                                                            \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS};                                \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                      \
    uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), #NAME);                          \
    simulator::element1(recipe, dst, src, scratch, count, [](float x) { return FORMULA; });                                \
  }                                                                                                                   \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                             \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {                      \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS};                                \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                      \
    uint64_t scratch = simulator::scratch(simulator::leastScratch<T>(recipe), #NAME);                                           \
    simulator::element1(recipe, dst, src, scratch, count, [](float x) { return FORMULA; });                                \
  }
#define SIMULATOR_LIBRARY(NAME, TYPES, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS, FORMULA)                                 \
  SIMULATOR_LIBRARY_COUNT(NAME, TYPES, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS, FORMULA)                                 \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                               \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer) { \
    NAME<T, isReuseSource, config>(dst, src, sharedTmpBuffer, src.GetSize());                                           \
  }                                                                                                                     \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                               \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src) {                                              \
    NAME<T, isReuseSource, config>(dst, src, src.GetSize());                                                            \
  }
// Functions without scratch memory have no overload with a temporary buffer.
#define SIMULATOR_LIBRARY_PLAIN(NAME, TYPES, CYCLES, INSTRUCTIONS, REREADS, FORMULA)                                              \
  template <typename T, bool isReuseSource = false>                                                                          \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {                                   \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, 0, 0, REREADS};                                               \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                             \
    simulator::element1(recipe, dst, src, 0, count, [](float x) { return FORMULA; });                                             \
  }                                                                                                                          \
  template <typename T, bool isReuseSource = false> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src) { \
    NAME<T, isReuseSource>(dst, src, src.GetSize());                                                                         \
  }
// Functions of two tensors.
#define SIMULATOR_LIBRARY_TWO(NAME, TYPES, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS, FORMULA)                                   \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                         \
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t count) {                                       \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS};                                        \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                              \
    uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), #NAME);                                  \
    simulator::element2(recipe, dst, src0, src1, scratch, count, [](T x, T y) { return FORMULA; });                                \
  }                                                                                                                           \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint32_t count) { \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, WIDE, NARROW, REREADS};                                        \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                              \
    uint64_t scratch = simulator::scratch(simulator::leastScratch<T>(recipe), #NAME);                                                   \
    simulator::element2(recipe, dst, src0, src1, scratch, count, [](T x, T y) { return FORMULA; });                                \
  }                                                                                                                           \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                         \
                   const LocalTensor<uint8_t>& sharedTmpBuffer) {                                                             \
    NAME<T, isReuseSource, config>(dst, src0, src1, sharedTmpBuffer, src0.GetSize());                                         \
  }                                                                                                                           \
  template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG>                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1) {                       \
    NAME<T, isReuseSource, config>(dst, src0, src1, src0.GetSize());                                                          \
  }
