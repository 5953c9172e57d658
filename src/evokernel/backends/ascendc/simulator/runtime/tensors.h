// Tensors in local and in global memory, with scalar access to both.
#pragma once
#include "core.h"
#include "types.h"
#include "writers.h"

namespace twin {

constexpr int spaceAt(AscendC::TPosition position) {
  using P = AscendC::TPosition;
  switch (position) {
    case P::A1: case P::B1: case P::C1: case P::SPM: case P::TSCM: return L1;
    case P::A2: return L0A;
    case P::B2: return L0B;
    case P::CO1: return L0C;
    case P::C2: return BT;
    case P::C2PIPE2GM: return FB;
    default: return UB;
  }
}

}  // namespace twin

namespace AscendC {

struct ShapeInfo {
  uint8_t shapeDim = 0, originalShapeDim = 0;
  uint32_t shape[8] = {}, originalShape[8] = {};
  int dataFormat = 0;
  ShapeInfo() = default;
  ShapeInfo(uint8_t dims, const uint32_t given[]) : shapeDim(dims), originalShapeDim(dims) {
    for (int i = 0; i < dims && i < 8; i++) shape[i] = originalShape[i] = given[i];
  }
};

// A reference to one element, for t(i) = value and t(i) += value.
template <typename Tensor, typename T> struct ElementOf {
  Tensor tensor;
  int64_t index;
  operator T() const { return tensor.GetValue(index); }
  const ElementOf& operator=(T value) const {
    tensor.SetValue(index, value);
    return *this;
  }
  const ElementOf& operator=(const ElementOf& other) const { return *this = T(other); }
  const ElementOf& operator+=(T value) const { return *this = T(T(*this) + value); }
  const ElementOf& operator-=(T value) const { return *this = T(T(*this) - value); }
  const ElementOf& operator*=(T value) const { return *this = T(T(*this) * value); }
  const ElementOf& operator/=(T value) const { return *this = T(T(*this) / value); }
};

template <typename T> class LocalTensor {
 public:
  using PrimType = T;
  uint32_t address = 0, low = 0, high = 0;  // of the view; the buffer it lies in
  uint32_t length = 0;
  TPosition position = TPosition::VECCALC;
  bool allocated = false;

  LocalTensor() = default;
  LocalTensor(TPosition where, uint32_t offset, uint32_t elements) : length(elements), position(where), allocated(true) {
    low = address = twin::SPACE_START[twin::spaceAt(where)] + offset;
    high = low + elements * uint32_t(sizeof(T));
    uint32_t end = twin::SPACE_START[twin::spaceAt(where)] + uint32_t(twin::spaceBytes(twin::spaceAt(where)));
    if (high > end) twin::stop("E-UB-FULL", "LocalTensor at %u of %u elements ends %u bytes behind the memory", offset, elements, high - end);
  }

  // dst = a + b on whole tensors, see operators.h
  template <typename E, typename = typename E::TensorExpression> LocalTensor& operator=(const E& expression) {
    expression.store(*this);
    return *this;
  }

  T* data() const { return reinterpret_cast<T*>(twin::core->local + address); }
  template <typename I> LocalTensor operator[](I offset) const {
    LocalTensor part = *this;
    part.address = uint32_t(address + int64_t(offset) * int64_t(sizeof(T)));
    part.length = int64_t(offset) < int64_t(length) ? uint32_t(length - int64_t(offset)) : 0;
    return part;
  }
  template <typename I> ElementOf<LocalTensor, T> operator()(I offset) const { return {*this, int64_t(offset)}; }

  template <typename I> T GetValue(I index) const {
    uint32_t at = place(int64_t(index), "GetValue");
    if (__builtin_expect(!twin::core->known[at], 0)) twin::core->reads(at, sizeof(T), "GetValue");
    twin::core->scalarTouch(at, false);
    twin::core->counts.scalarUb++;
    twin::core->scalar(twin::chip().scalar_ub);
    return *reinterpret_cast<T*>(twin::core->local + at);
  }
  template <typename I, typename U> void SetValue(I index, U value) const {
    uint32_t at = place(int64_t(index), "SetValue");
    twin::core->scalarTouch(at, true);
    twin::core->counts.scalarUb++;
    twin::core->scalar(twin::chip().scalar_ub);
    *reinterpret_cast<T*>(twin::core->local + at) = T(value);
    memset(twin::core->known + at, 1, sizeof(T));
  }

  uint32_t GetSize() const { return length; }
  uint32_t GetLength() const { return length * uint32_t(sizeof(T)); }
  void SetSize(uint32_t elements) { length = elements; }
  uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(twin::core->seen + address); }
  uint64_t GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + offset * sizeof(T); }
  TPosition GetPosition() const { return position; }
  template <typename U> LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> other;
    other.address = address;
    other.low = low;
    other.high = high;
    other.length = uint32_t(uint64_t(length) * sizeof(T) / sizeof(U));
    other.position = position;
    other.allocated = allocated;
    return other;
  }
  template <typename U> void SetAddrWithOffset(LocalTensor<U>& from, uint32_t offset) {
    *this = from.template ReinterpretCast<T>();
    address += offset * uint32_t(sizeof(U));
  }
  void SetShapeInfo(const ShapeInfo& info) { shape = info; }
  ShapeInfo GetShapeInfo() const { return shape; }
  void SetUserTag(int32_t value) { tag = value; }
  int32_t GetUserTag() const { return tag; }

 private:
  ShapeInfo shape;
  int32_t tag = 0;
  uint32_t place(int64_t index, const char* what) const {
    int64_t at = int64_t(address) + index * int64_t(sizeof(T));
    if (__builtin_expect(!allocated || at < int64_t(low) || at + int64_t(sizeof(T)) > int64_t(high), 0)) outside(index, what);
    return uint32_t(at);
  }
  __attribute__((cold, noinline)) void outside(int64_t index, const char* what) const {
    if (!allocated) twin::stop("E-UB-NULL", "%s(%ld) on a LocalTensor that was never allocated", what, long(index));
    int64_t at = int64_t(address) + index * int64_t(sizeof(T));
    auto tell = twin::isBeside(low, at, sizeof(T)) ? twin::broken : twin::stop;
    tell("E-UB-OOB", "%s(%ld) of a view at +%d lies outside its buffer of %u bytes", what, long(index), int(address - low), high - low);
  }
};

template <typename T> class GlobalTensor {
 public:
  using PrimType = T;
  uintptr_t base = 0;  // where the data is, not the address the kernel was given
  uintptr_t low = 0, high = 0;
  const twin::Region* region = nullptr;
  uint64_t elements = 0;

  void SetGlobalBuffer(T* pointer) { SetGlobalBuffer(pointer, 0); }
  void SetGlobalBuffer(T* pointer, uint64_t count) {
    uintptr_t seen = reinterpret_cast<uintptr_t>(pointer);
    region = twin::regionAt(seen);
    elements = count;
    if (!region) {  // an optional input that is absent, or what is behind an output: harmless until it is used
      base = seen;
      low = high = 0;
      return;
    }
    low = region->low;
    high = region->high;
    base = low + (seen - region->seen);
    if (count && base + count * sizeof(T) > high)
      twin::remark("W-GM-SIZE", "SetGlobalBuffer announces %llu bytes, but '%s' has %ld from there on", (unsigned long long)(count * sizeof(T)),
                   region->name, long(high - base));
  }
  T* data() const { return reinterpret_cast<T*>(base); }
  template <typename I> GlobalTensor operator[](I offset) const {
    GlobalTensor part = *this;
    part.base = base + uintptr_t(int64_t(offset) * int64_t(sizeof(T)));
    part.elements = elements > uint64_t(offset) ? elements - uint64_t(offset) : 0;
    return part;
  }
  template <typename I> ElementOf<GlobalTensor, T> operator()(I offset) const { return {*this, int64_t(offset)}; }

  template <typename I> T GetValue(I index) const {
    uintptr_t at = place(int64_t(index), "GetValue");
    if (__builtin_expect(region->writers != nullptr, 0)) twin::reading(region, at - low, sizeof(T), "GetValue");
    twin::core->scalarGm(at);
    return *reinterpret_cast<const T*>(at);
  }
  template <typename I, typename U> void SetValue(I index, U value) const {
    uintptr_t at = place(int64_t(index), "SetValue");
    if (__builtin_expect(!region->writable, 0)) twin::stop("E-GM-READONLY", "SetValue writes the kernel's input '%s'", region->name);
    own(at);
    twin::core->scalarGm(at);
    T made = T(value);
    twin::writing(region, at - low, &made, sizeof(T), "SetValue");
    *reinterpret_cast<T*>(at) = made;
  }
  uint64_t GetSize() const { return elements; }
  T* GetPhyAddr() const { return reinterpret_cast<T*>(region ? base - low + region->seen : base); }
  T* GetPhyAddr(uint64_t offset) const { return GetPhyAddr() + offset; }
  void SetShapeInfo(const ShapeInfo& info) { shape = info; }
  ShapeInfo GetShapeInfo() const { return shape; }
  template <CacheRwMode rw = CacheRwMode::RW> void SetL2CacheHint(CacheMode mode) {
    if (region) twin::passBy(region, mode == CacheMode::CACHE_MODE_DISABLE);
  }

  // Are `bytes` from `skip` bytes on inside the argument this is a part of?
  void check(int64_t skip, uint64_t bytes, const char* what) const {
    uintptr_t at = base + uintptr_t(skip);
    if (__builtin_expect(!region || at < low || at + bytes > high, 0)) outside(skip, bytes, what);
  }
  void writes(const char* what) const {
    if (__builtin_expect(region && !region->writable, 0)) twin::stop("E-GM-READONLY", "%s writes the kernel's input '%s'", what, region->name);
  }
  bool aligned() const { return (base - low) % 512 == 0; }
  // They are about to be written with what is at `from`.
  void receives(int64_t skip, const void* from, uint64_t bytes, const char* what) const {
    twin::writing(region, base - low + uint64_t(skip), from, bytes, what);
  }
  void gives(int64_t skip, uint64_t bytes, const char* what) const { twin::reading(region, base - low + uint64_t(skip), bytes, what); }
  twin::Traffic rows(uint64_t count, uint64_t length, uint64_t gap) const { return {region, base - low, count, length, length + gap}; }

 private:
  ShapeInfo shape;
  uintptr_t place(int64_t index, const char* what) const {
    uintptr_t at = base + uintptr_t(index * int64_t(sizeof(T)));
    if (__builtin_expect(at < low || at + sizeof(T) > high, 0)) outside(index * int64_t(sizeof(T)), sizeof(T), what);
    return at;
  }
  // Of two cores that write one line of 64 bytes through their data caches, one may lose its update: the line goes back whole.
  void own(uintptr_t at) const {
    if (!region->lineOwner) return;
    uint16_t& owner = region->lineOwner[(at - low) >> 6];
    uint16_t me = uint16_t(twin::core->blockIndex + 1);
    if (__builtin_expect(owner != me, 0)) {
      if (owner) shared(owner);
      owner = me;
    }
  }
  __attribute__((cold, noinline)) void shared(uint16_t owner) const {
    twin::remark("W-GM-LINE", "SetValue: blocks %d and %ld both write one 64-byte line of '%s' through their data caches, and an update may be lost",
                 owner - 1, long(twin::core->blockIndex), region->name);
  }
  [[noreturn]] __attribute__((cold, noinline)) void outside(int64_t skip, uint64_t bytes, const char* what) const {
    if (!region && base) twin::stop("E-GM-BASE", "%s: what SetGlobalBuffer was given lies in no argument of the kernel, nor in its workspace", what);
    if (!region) twin::stop("E-GM-BASE", "%s: SetGlobalBuffer was never called on this GlobalTensor, or with a null pointer", what);
    twin::stop("E-GM-OOB", "%s: %llu bytes at byte %ld of '%s', which has %ld", what, (unsigned long long)bytes,
               long(int64_t(base - low) + skip), region->name, long(high - low));
  }
};

}  // namespace AscendC

namespace twin {

// What every instruction asks of an operand in local memory.
template <typename T> inline void operand(int pipe, const AscendC::LocalTensor<T>& tensor, uint64_t bytes, bool writes, const char* what,
                                          uint32_t align = BLOCK) {
  if (__builtin_expect(!tensor.allocated, 0)) stop("E-UB-NULL", "%s: a LocalTensor that was never allocated", what);
  if (__builtin_expect(tensor.address < tensor.low || tensor.address + bytes > tensor.high, 0)) {
    auto tell = isBeside(tensor.low, tensor.address, bytes) ? broken : stop;
    tell("E-UB-OOB", "%s %s %llu bytes at +%d of a buffer of %u bytes", what, writes ? "writes" : "reads", (unsigned long long)bytes,
         int(tensor.address - tensor.low), tensor.high - tensor.low);
  }
  if (__builtin_expect(tensor.address % align != 0, 0))
    broken("E-UB-ALIGN", "%s: %s address %u is no multiple of %u bytes", what, spaceName(spaceOf(tensor.address)), inSpace(tensor.address), align);
  if (!writes) core->reads(tensor.address, bytes, what);
  core->touch(pipe, tensor.address, bytes, writes, what);
}
template <typename T> inline void source(int pipe, const AscendC::LocalTensor<T>& t, uint64_t bytes, const char* what, uint32_t align = BLOCK) {
  operand(pipe, t, bytes, false, what, align);
}
template <typename T> inline void target(int pipe, const AscendC::LocalTensor<T>& t, uint64_t bytes, const char* what, uint32_t align = BLOCK) {
  operand(pipe, t, bytes, true, what, align);
}

// A vector instruction of so many bytes per operand.
inline void vectorCost(uint64_t bytes, double cyclesPerRepeat, int instructions = 1) {
  core->counts.vectorCalls += uint64_t(instructions);
  double repeats = double((bytes + 255) / 256);
  core->issue(V, instructions * chip().vector_start + repeats * cyclesPerRepeat);
}

// Two sources are read in one cycle only when they lie in different bank groups: 256 bytes apart, modulo 512.
template <typename T, typename U> inline double twoSources(const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<U>& other) {
  return ((one.address - other.address) & 511) == 256 || one.address == other.address ? 1.0 : 2.0;
}

inline bool nothing(int64_t count, const char* what) {
  if (count > 0) return false;
  broken("E-COUNT", "%s with a count of %ld", what, long(count));
  return true;
}

template <bool allowed, typename T> inline void takes(const char* what) {
  if (!allowed) broken("E-DTYPE", "%s does not take %s on this chip", what, typeName<T>());
}

}  // namespace twin
