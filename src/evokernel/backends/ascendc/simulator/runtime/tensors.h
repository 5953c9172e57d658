// Tensors in local and in global memory, with scalar access to both.
#pragma once
#include "core.h"
#include "types.h"
#include "writers.h"

namespace simulator {

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

inline uint32_t spaceEnd(int space) { return SPACE_START[space] + uint32_t(spaceBytes(space)); }

// An access behind the end of a memory, by an address that InitBuffer gave out.
inline void checkEnd(int space, int64_t at, uint64_t bytes, const char* what) {
  uint32_t end = spaceEnd(space), announced = core->top[space];
  if (at + int64_t(bytes) <= int64_t(end) || announced <= end || at + int64_t(bytes) > int64_t(announced)) return;
  endRun(space == UB ? "E-UB-FULL" : "E-L1-FULL", "%s needs bytes [%ld, +%llu) of %s, but the core has %u: InitBuffer gave out %u", what, long(at - SPACE_START[space]),
         (unsigned long long)bytes, spaceName(space), end - SPACE_START[space], announced - SPACE_START[space]);
}

}  // namespace simulator

namespace AscendC {

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
struct ShapeInfo {
  uint8_t shapeDim = 0, originalShapeDim = 0;
  uint32_t shape[8] = {}, originalShape[8] = {};
  DataFormat dataFormat = DataFormat::ND;
  ShapeInfo() = default;
  ShapeInfo(uint8_t dims, const uint32_t given[], DataFormat format = DataFormat::ND) : ShapeInfo(dims, given, dims, given, format) {}
  ShapeInfo(uint8_t dims, const uint32_t given[], uint8_t originalDims, const uint32_t original[], DataFormat format)
      : shapeDim(dims), originalShapeDim(originalDims), dataFormat(format) {
    for (int i = 0; i < dims && i < 8; i++) shape[i] = given[i];
    for (int i = 0; i < originalDims && i < 8; i++) originalShape[i] = original[i];
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
  uint32_t address = 0, low = 0, high = 0;  // address of the view; range of its buffer
  uint32_t length = 0;
  TPosition position = TPosition::VECCALC;
  bool allocated = false;

  LocalTensor() = default;
  LocalTensor(TPosition where, uint32_t offset, uint32_t elements) : length(elements), position(where), allocated(true) {
    low = address = simulator::SPACE_START[simulator::spaceAt(where)] + offset;
    high = low + elements * uint32_t(sizeof(T));
    uint32_t end = simulator::SPACE_START[simulator::spaceAt(where)] + uint32_t(simulator::spaceBytes(simulator::spaceAt(where)));
    if (high > end) simulator::endRun("E-UB-FULL", "LocalTensor at %u with %u elements ends %u bytes behind the end of the memory", offset, elements, high - end);
  }

  // dst = a + b on complete tensors, see operators.h
  template <typename E, typename = typename E::TensorExpression> LocalTensor& operator=(const E& expression) {
    expression.store(*this);
    return *this;
  }

  T* data() const { return reinterpret_cast<T*>(simulator::core->local + address); }
  template <typename I> LocalTensor operator[](I offset) const {
    LocalTensor part = *this;
    part.address = uint32_t(address + int64_t(offset) * int64_t(sizeof(T)));
    part.length = int64_t(offset) < int64_t(length) ? uint32_t(length - int64_t(offset)) : 0;
    return part;
  }
  template <typename I> ElementOf<LocalTensor, T> operator()(I offset) const { return {*this, int64_t(offset)}; }

  template <typename I> T GetValue(I index) const {
    uint32_t at = place(int64_t(index), "GetValue");
    if (__builtin_expect(!simulator::core->known[at], 0)) simulator::core->scalarReads(at, sizeof(T), "GetValue");
    int waitedFor = simulator::core->scalarTouch(at, false);
    simulator::core->counts.scalarUb++;
    simulator::core->access(simulator::chip().scalar_ub, waitedFor);
    return *reinterpret_cast<T*>(simulator::core->local + at);
  }
  template <typename I, typename U> void SetValue(I index, U value) const {
    uint32_t at = place(int64_t(index), "SetValue");
    int waitedFor = simulator::core->scalarTouch(at, true);
    simulator::core->counts.scalarUb++;
    simulator::core->access(simulator::chip().scalar_ub, waitedFor);
    *reinterpret_cast<T*>(simulator::core->local + at) = T(value);
    memset(simulator::core->known + at, 1, sizeof(T));
  }

  uint32_t GetSize() const { return length; }
  uint32_t GetLength() const { return length * uint32_t(sizeof(T)); }
  void SetSize(uint32_t elements) { length = elements; }
  uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(simulator::core->seen + address); }
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
    if (!allocated) simulator::endRun("E-UB-NULL", "%s(%ld) on a LocalTensor without memory (it was never allocated)", what, long(index));
    int64_t at = int64_t(address) + index * int64_t(sizeof(T));
    simulator::checkEnd(simulator::spaceAt(position), at, sizeof(T), what);
    auto report = simulator::isInSameMemory(low, at, sizeof(T)) ? simulator::reportViolation : simulator::endRun;
    report("E-UB-OOB", "%s(%ld) of a view at +%d is outside its buffer of %u bytes", what, long(index), int(address - low), high - low);
  }
};

template <typename T> class GlobalTensor {
 public:
  using PrimType = T;
  uintptr_t base = 0;  // address of the data, not the address that the kernel got
  uintptr_t low = 0, high = 0;
  const simulator::Region* region = nullptr;
  uint64_t elements = 0;

  void SetGlobalBuffer(T* pointer) { SetGlobalBuffer(pointer, 0); }
  void SetGlobalBuffer(T* pointer, uint64_t count) {
    uintptr_t seen = reinterpret_cast<uintptr_t>(pointer);
    region = simulator::regionAt(seen);
    elements = count;
    if (!region) {  // an absent optional input, or memory behind an output: allowed until it is used
      base = seen;
      low = high = 0;
      return;
    }
    low = region->low;
    high = region->high;
    base = low + (seen - region->seen);
    if (count && base + count * sizeof(T) > high)
      simulator::addNote("W-GM-SIZE", "SetGlobalBuffer declares %llu bytes, but '%s' has only %ld from this address", (unsigned long long)(count * sizeof(T)),
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
    if (__builtin_expect(region->watched, 0) && !simulator::canRead(region, at, sizeof(T), "GetValue")) return T(0);
    simulator::core->scalarGm(at);
    return *reinterpret_cast<const T*>(at);
  }
  template <typename I, typename U> void SetValue(I index, U value) const {
    uintptr_t at = place(int64_t(index), "SetValue");
    if (__builtin_expect(!region->writable, 0)) simulator::endRun("E-GM-READONLY", "SetValue writes to the kernel's input '%s'", region->name);
    own(at);
    simulator::core->scalarGm(at);
    T made = T(value);
    simulator::writing(region, at - low, &made, sizeof(T), "SetValue");
    if (stores(int64_t(at - base), sizeof(T))) *reinterpret_cast<T*>(at) = made;
  }
  uint64_t GetSize() const { return elements; }
  T* GetPhyAddr() const { return reinterpret_cast<T*>(region ? base - low + region->seen : base); }
  T* GetPhyAddr(uint64_t offset) const { return GetPhyAddr() + offset; }
  void SetShapeInfo(const ShapeInfo& info) { shape = info; }
  ShapeInfo GetShapeInfo() const { return shape; }
  template <CacheRwMode rw = CacheRwMode::RW> void SetL2CacheHint(CacheMode mode) {
    if (region) simulator::passBy(region, mode == CacheMode::CACHE_MODE_DISABLE);
  }

  // Whether `bytes` bytes at offset `skip` are inside the argument.
  void check(int64_t skip, uint64_t bytes, const char* what) const {
    uintptr_t at = base + uintptr_t(skip);
    if (__builtin_expect(!region || at < low || at + bytes > high, 0)) outside(skip, bytes, what);
  }
  void writes(const char* what) const {
    if (__builtin_expect(region && !region->writable, 0)) simulator::endRun("E-GM-READONLY", "%s writes to the kernel's input '%s'", what, region->name);
  }
  bool aligned() const { return (base - low) % 512 == 0; }
  // Records that they will be overwritten with the data at `from`.
  void receives(int64_t skip, const void* from, uint64_t bytes, const char* what) const {
    simulator::writing(region, base - low + uint64_t(skip), from, bytes, what);
  }
  // Every instruction that writes to global memory asks this for each range, and stores the data only where it is true.
  // `adds`: an atomic operation combines them with what is there, which SetAtomicAdd and its like imply.
  bool stores(int64_t skip, uint64_t bytes, bool adds = false) const {
    return __builtin_expect(!region->written, 1) || simulator::recordWrite(region, base - low + uint64_t(skip), bytes, adds);
  }
  void gives(int64_t skip, uint64_t bytes, const char* what) const { simulator::reading(region, base - low + uint64_t(skip), bytes, what); }
  simulator::Traffic rows(uint64_t count, uint64_t length, uint64_t gap) const { return {region, base - low, count, length, length + gap}; }

 private:
  ShapeInfo shape;
  uintptr_t place(int64_t index, const char* what) const {
    uintptr_t at = base + uintptr_t(index * int64_t(sizeof(T)));
    if (__builtin_expect(at < low || at + sizeof(T) > high, 0)) outside(index * int64_t(sizeof(T)), sizeof(T), what);
    return at;
  }
  // If two cores write to one 64-byte line through their data caches, one update may be lost, because the cache writes back the complete line.
  void own(uintptr_t at) const {
    if (!region->lineOwner) return;
    uint16_t& owner = region->lineOwner[(at - low) >> 6];
    uint16_t me = uint16_t(simulator::core->blockIndex + 1);
    if (__builtin_expect(owner != me, 0)) {
      if (owner) shared(owner);
      owner = me;
    }
  }
  __attribute__((cold, noinline)) void shared(uint16_t owner) const {
    simulator::addNote("W-GM-LINE", "SetValue: blocks %d and %ld both write to one 64-byte line of '%s' through their data caches, so an update may be lost",
                 owner - 1, long(simulator::core->blockIndex), region->name);
  }
  [[noreturn]] __attribute__((cold, noinline)) void outside(int64_t skip, uint64_t bytes, const char* what) const {
    if (!region && base) simulator::endRun("E-GM-BASE", "%s: the address passed to SetGlobalBuffer is in no argument of the kernel and not in its workspace", what);
    if (!region) simulator::endRun("E-GM-BASE", "%s: SetGlobalBuffer was not called on this GlobalTensor, or was called with a null pointer", what);
    simulator::endRun("E-GM-OOB", "%s: access to %llu bytes at byte %ld of '%s', which has %ld bytes", what, (unsigned long long)bytes,
               long(int64_t(base - low) + skip), region->name, long(high - low));
  }
};

}  // namespace AscendC

namespace simulator {

// Checks an operand of an instruction in local memory.
template <typename T> inline void operand(int pipe, const AscendC::LocalTensor<T>& tensor, uint64_t bytes, bool writes, const char* what,
                                          uint32_t align = BLOCK) {
  if (__builtin_expect(!tensor.allocated, 0)) endRun("E-UB-NULL", "%s: the LocalTensor has no memory (it was never allocated)", what);
  if (__builtin_expect(tensor.address < tensor.low || tensor.address + bytes > tensor.high, 0)) {
    checkEnd(spaceAt(tensor.position), tensor.address, bytes, what);
    auto report = isInSameMemory(tensor.low, tensor.address, bytes) ? reportViolation : endRun;
    report("E-UB-OOB", "%s %s %llu bytes at +%d of a buffer of %u bytes", what, writes ? "writes" : "reads", (unsigned long long)bytes,
         int(tensor.address - tensor.low), tensor.high - tensor.low);
  }
  if (__builtin_expect(tensor.address % align != 0, 0))
    reportViolation("E-UB-ALIGN", "%s: %s address %u is not a multiple of %u bytes", what, spaceName(spaceOf(tensor.address)), inSpace(tensor.address), align);
  if (!writes) core->reads(tensor.address, bytes, what);
  core->touch(pipe, tensor.address, bytes, writes, what);
}
template <typename T> inline void source(int pipe, const AscendC::LocalTensor<T>& t, uint64_t bytes, const char* what, uint32_t align = BLOCK) {
  operand(pipe, t, bytes, false, what, align);
}
template <typename T> inline void target(int pipe, const AscendC::LocalTensor<T>& t, uint64_t bytes, const char* what, uint32_t align = BLOCK) {
  operand(pipe, t, bytes, true, what, align);
}

// Issues a vector instruction with the given bytes per operand.
inline void vectorCost(uint64_t bytes, double cyclesPerRepeat, int instructions = 1) {
  core->counts.vectorCalls += uint64_t(instructions);
  double repeats = double((bytes + 255) / 256);
  core->issue(V, instructions * chip().vector_start + repeats * cyclesPerRepeat, instructions * chip().vector_start);
}

// The same for an instruction that combines lanes.
inline void reduceCost(uint64_t bytes, double cyclesPerRepeat, int instructions = 1) {
  core->counts.vectorCalls += uint64_t(instructions);
  double fixed = instructions * chip().reduce_start;
  core->issue(V, fixed + double((bytes + 255) / 256) * cyclesPerRepeat, fixed, REDUCTION);
}

// The hardware reads two sources in one cycle only if they are in different bank groups: 256 bytes apart, modulo 512.
template <typename T, typename U> inline double twoSources(const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<U>& other) {
  return ((one.address - other.address) & 511) == 256 || one.address == other.address ? 1.0 : 2.0;
}

inline bool nothing(int64_t count, const char* what) {
  if (count > 0) return false;
  reportViolation("E-COUNT", "%s: the count is %ld", what, long(count));
  return true;
}

template <bool allowed, typename T> inline void takes(const char* what) {
  if (!allowed) reportViolation("E-DTYPE", "%s does not support %s on this chip", what, typeName<T>());
}

}  // namespace simulator
