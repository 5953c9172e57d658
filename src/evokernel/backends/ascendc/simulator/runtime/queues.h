// TPipe allocates local memory; queues pass buffers from pipe to pipe; TBuf is memory without synchronization.
#pragma once
#include "tensors.h"

namespace simulator {

constexpr int filledBy(AscendC::TPosition position) {  // the pipe that writes the buffers of such a queue
  using P = AscendC::TPosition;
  switch (position) {
    case P::VECIN: case P::A1: case P::B1: case P::C1: return MTE2;
    case P::A2: case P::B2: case P::C2: return MTE1;
    case P::CO1: return M;
    case P::CO2: return FIX;
    default: return V;
  }
}
constexpr int emptiedBy(AscendC::TPosition position) {
  using P = AscendC::TPosition;
  switch (position) {
    case P::VECIN: case P::VECCALC: return V;
    case P::VECOUT: return MTE3;
    case P::A1: case P::B1: case P::C1: return MTE1;
    case P::A2: case P::B2: case P::C2: return M;
    case P::CO1: return FIX;
    default: return V;
  }
}

// Buffers of queues hold event IDs: from EnQue to DeQue, and from FreeTensor to the next AllocTensor of the buffer. The library
// does not check for the last ID; a wait on an ID beyond it waits for an event that does not exist.
inline int8_t takeId(int from, int to) {
  if (from == to) return 0;
  uint64_t& taken = core->idsTaken[from][to];
  int id = taken == ~0ull ? 63 : __builtin_ctzll(~taken);
  taken |= 1ull << id;
  return int8_t(id);
}
inline void returnId(int from, int to, int id, const char* what) {
  if (from == to) return;
  core->idsTaken[from][to] &= ~(1ull << id);
  if (__builtin_expect(id >= int(chip().event_ids), 0))
    reportViolation("E-QUE-EVENTS", "%s waits for event ID %d from PIPE_%s to PIPE_%s: the buffers of the queues need more than the %d available IDs", what, id,
           pipeName(from), pipeName(to), int(chip().event_ids));
}

}  // namespace simulator

namespace AscendC {

using TEventID = int32_t;
class TPipe;
inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(simulator::core->pipe); }

// The fields that InitBuffer sets.
class Buffers {
 public:
  uint32_t start = 0, each = 0;
  int number = 0;
  uint32_t slot = 0;  // the first of its buffers among those of the pipe

 protected:
  template <typename T> LocalTensor<T> tensor(int index, TPosition position, uint32_t bytes) const {
    LocalTensor<T> made;
    made.low = made.address = start + uint32_t(index) * each;
    made.high = made.low + each;
    made.length = bytes / uint32_t(sizeof(T));
    made.position = position;
    made.allocated = true;
    // The hardware does not check what InitBuffer announces. An access behind the end of the memory ends the run.
    made.high = std::min(made.high, simulator::spaceEnd(simulator::spaceAt(position)));
    return made;
  }
};

// The configuration of a queue, which does not change the order of its buffers.
struct TQueConfig {
  bool nd2nz = false, nz2nd = false, scmBlockGroup = false;
  uint32_t bufferLen = 0, bufferNumber = 0, consumerSize = 0;
  TPosition consumer[8] = {};
  bool enableStaticEvtId = false, enableLoopQueue = false;
};

template <TPosition from, TPosition to, int32_t depth, auto mask = 0> class TQueBind : public Buffers {
 public:
  static constexpr TPosition srcPosition = from == TPosition::GM ? to : from, dstPosition = to;
  static constexpr bool isTQue = true;
  using Buffer = simulator::QueueBuffer;

  void simulatorReset() {
    for (int index = 0; index < number; index++) buffer(index) = Buffer();
    first = waiting = next = 0;
  }
  template <typename T> LocalTensor<T> AllocTensor() {
    if (!number) simulator::endRun("E-QUE-INIT", "AllocTensor is called before pipe.InitBuffer gave this queue memory");
    for (int k = 0; k < number; k++) {
      int index = (next + k) % number;
      if (buffer(index).state != Buffer::FREE) continue;
      buffer(index).state = Buffer::TAKEN;
      next = (index + 1) % number;
      await(index, "AllocTensor");
      return tensor<T>(index, srcPosition, each);
    }
    simulator::endRun("E-QUE-ALLOC", "AllocTensor: all %d buffers of the queue are in use", number);
  }
  template <typename T> void AllocTensor(LocalTensor<T>& into) { into = AllocTensor<T>(); }
  template <typename T> bool EnQue(const LocalTensor<T>& given) { return put(given, FILL); }
  template <typename T> bool EnQue(LocalTensor<T>& given) { return put(given, FILL); }
  template <TPosition srcUser, TPosition dstUser, typename T> bool EnQue(const LocalTensor<T>& given) { return put(given, srcUser == TPosition::GM ? simulator::MTE2 : simulator::V); }
  template <typename T> LocalTensor<T> DeQue() { return take<T>(EMPTY); }
  void DeQue() { take<uint8_t>(EMPTY); }
  template <typename T> void DeQue(LocalTensor<T>& into) { into = DeQue<T>(); }
  template <TPosition srcUser, TPosition dstUser, typename T> LocalTensor<T> DeQue() { return take<T>(dstUser == TPosition::GM ? simulator::MTE3 : simulator::V); }
  template <typename T> void FreeTensor(const LocalTensor<T>& given) {
    int index = indexOf(given, "FreeTensor");
    Buffer& one = buffer(index);
    if (one.state == Buffer::FREE) simulator::endRun("E-QUE-FREE", "FreeTensor is called for a tensor that is already free");
    if (one.state == Buffer::QUEUED) simulator::endRun("E-QUE-LOST", "FreeTensor is called for a tensor that is still in the queue: call DeQue first");
    one.state = Buffer::FREE;
    simulator::core->raise(one.freed, EMPTY);
    one.freedId = simulator::takeId(EMPTY, FILL);
  }
  template <typename T> void FreeTensor(LocalTensor<T>& given) { FreeTensor(static_cast<const LocalTensor<T>&>(given)); }
  void FreeAllEvent() {
    for (int index = 0; index < number; index++) await(index, "FreeAllEvent");
  }
  bool HasTensorInQue() const { return waiting > 0; }
  bool VacantInQue() const { return waiting < (depth > 0 ? depth : 1); }
  int32_t GetTensorCountInQue() const { return waiting; }
  bool HasIdleBuffer() const {
    for (int i = 0; i < number; i++)
      if (buffer(i).state == Buffer::FREE) return true;
    return false;
  }
  void InitStartBufHandle(uint32_t, uint32_t, uint32_t) {}

 private:
  static constexpr int MOST = 64;
  static constexpr int FILL = simulator::filledBy(srcPosition);
  static constexpr int EMPTY = simulator::emptiedBy(to == TPosition::GM ? from : to);
  int order[MOST] = {}, first = 0, waiting = 0, next = 0;

  Buffer& buffer(int index) const { return simulator::core->queueBuffers[this->slot + uint32_t(index)]; }

  // Waits for the last user of the buffer.
  void await(int index, const char* what) {
    Buffer& one = buffer(index);
    if (!one.freed.set) return;
    simulator::returnId(EMPTY, FILL, one.freedId, what);
    simulator::core->wait(one.freed, FILL, true);
    one.freed.set = false;
  }
  template <typename T> bool put(const LocalTensor<T>& given, int pipe) {
    int index = indexOf(given, "EnQue");
    Buffer& one = buffer(index);
    if (one.state == Buffer::FREE) simulator::endRun("E-QUE-ENQUE", "EnQue is called for a tensor that is not allocated or is already freed");
    if (one.state == Buffer::QUEUED) simulator::endRun("E-QUE-TWICE", "EnQue is called for a tensor that is already in the queue");
    if (waiting >= (depth > 0 ? depth : 1)) simulator::reportViolation("E-QUE-DEPTH", "EnQue: the queue would hold %d tensors, but its depth is %d", waiting + 1, int(depth));
    if (waiting >= MOST) simulator::endRun("E-QUE-DEPTH", "EnQue: the queue would hold %d tensors, but its depth is %d", waiting + 1, int(depth));
    one.state = Buffer::QUEUED;
    simulator::core->raise(one.filled, pipe);
    one.filledId = simulator::takeId(FILL, EMPTY);
    order[(first + waiting++) % MOST] = index;
    return true;
  }
  template <typename T> LocalTensor<T> take(int pipe) {
    if (!waiting) simulator::endRun("E-QUE-EMPTY", "DeQue from an empty queue: without a preceding EnQue the core waits forever");
    int index = order[first];
    first = (first + 1) % MOST;
    waiting--;
    Buffer& one = buffer(index);
    one.state = Buffer::PASSED;
    simulator::returnId(FILL, EMPTY, one.filledId, "DeQue");
    simulator::core->wait(one.filled, pipe);
    return tensor<T>(index, srcPosition, each);
  }
  template <typename T> int indexOf(const LocalTensor<T>& given, const char* what) const {
    if (!given.allocated) simulator::endRun("E-UB-NULL", "%s is called for a LocalTensor without memory (it was never allocated)", what);
    bool mine = each && given.low >= start && given.low < start + each * uint32_t(number) && (given.low - start) % each == 0;
    if (!mine) simulator::endRun("E-QUE-FOREIGN", "%s is called for a tensor that does not belong to this queue", what);
    return int((given.low - start) / each);
  }
};

template <TPosition position, int32_t depth, auto mask = 0> class TQue : public TQueBind<position, position, depth, mask> {};

template <TPosition position = TPosition::VECCALC> class TBuf : public Buffers {
 public:
  static constexpr TPosition srcPosition = position;
  static constexpr bool isTQue = false;
  void simulatorReset() {}
  template <typename T> LocalTensor<T> Get() { return get<T>(each / uint32_t(sizeof(T))); }
  template <typename T> LocalTensor<T> Get(uint32_t elements) { return get<T>(elements); }
  template <typename T> LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset) {
    LocalTensor<T> made = get<T>(0);
    made.address += offset;
    made.length = elements;
    if (made.address + elements * sizeof(T) > made.high)
      simulator::reportViolation("E-BUF-GET", "TBuf.GetWithOffset: %zu bytes at offset %u exceed the buffer of %u bytes", size_t(elements * sizeof(T)), offset, each);
    return made;
  }
  template <typename T> LocalTensor<T> AllocTensor() { return Get<T>(); }
  template <typename T> void FreeTensor(const LocalTensor<T>&) {}
  template <typename T> void EnQue(const LocalTensor<T>&) {}
  template <typename T> LocalTensor<T> DeQue() { return Get<T>(); }
  uint32_t GetBufLen() const { return each; }

 private:
  template <typename T> LocalTensor<T> get(uint32_t elements) {
    if (!number) simulator::endRun("E-BUF-INIT", "TBuf.Get is called before pipe.InitBuffer gave the buffer memory");
    if (uint64_t(elements) * sizeof(T) > each)
      simulator::reportViolation("E-BUF-GET", "TBuf.Get: %llu bytes exceed the buffer of %u bytes", (unsigned long long)(uint64_t(elements) * sizeof(T)), each);
    return tensor<T>(0, position, elements * uint32_t(sizeof(T)));
  }
};

class TPipe {
 public:
  TPipe() {
    Reset();
    simulator::core->pipe = this;
  }
  ~TPipe() {
    if (simulator::core->pipe == this) simulator::core->pipe = nullptr;
    Reset();
  }
  void Init() {}
  void Destroy() { Reset(); }
  void Reset() {  // allocated memory becomes available again
    for (int space = 0; space < simulator::SPACES; space++) simulator::core->top[space] = simulator::SPACE_START[space];
    simulator::core->buffers = 0;
    memset(simulator::core->idsTaken, 0, sizeof simulator::core->idsTaken);
    for (auto& used : eventsUsed) used = 0;
  }
  template <class Q> bool InitBuffer(Q& queue, uint8_t number, uint32_t bytes) {
    static_assert(Q::isTQue, "InitBuffer(buffer, number, bytes) is for a TQue; a TBuf takes InitBuffer(buffer, bytes)");
    return give(queue, number, bytes);
  }
  template <TPosition position> bool InitBuffer(TBuf<position>& buffer, uint32_t bytes) { return give(buffer, 1, bytes); }

  template <HardEvent event> TEventID AllocEventID() { return AllocEventID(event); }
  TEventID AllocEventID(HardEvent event) {
    uint8_t& used = eventsUsed[int(event)];
    for (int id = 0; id < int(simulator::chip().event_ids); id++) {
      if (used & (1 << id)) continue;
      used = uint8_t(used | (1 << id));
      return id;
    }
    simulator::endRun("E-EVENT-IDS", "AllocEventID: all %d event IDs of this pair of pipes are in use: call ReleaseEventID for finished ones", int(simulator::chip().event_ids));
  }
  template <HardEvent event> void ReleaseEventID(TEventID id) { ReleaseEventID(event, id); }
  void ReleaseEventID(HardEvent event, TEventID id) { eventsUsed[int(event)] = uint8_t(eventsUsed[int(event)] & ~(1 << (id & 7))); }
  template <HardEvent event> TEventID FetchEventID() { return FetchEventID(event); }
  TEventID FetchEventID(HardEvent event) {
    for (int id = 0; id < int(simulator::chip().event_ids); id++)
      if (!(eventsUsed[int(event)] & (1 << id))) return id;
    return 0;
  }
  template <TPosition position> LocalTensor<uint8_t> GetAbsAddr(int32_t offset, int32_t bytes) const { return LocalTensor<uint8_t>(position, uint32_t(offset), uint32_t(bytes)); }
  template <TPosition position, typename T> LocalTensor<T> GetAbsAddr(int32_t offset, int32_t elements) const { return LocalTensor<T>(position, uint32_t(offset), uint32_t(elements)); }

 private:
  uint8_t eventsUsed[64] = {};

  template <class B> bool give(B& buffer, int number, uint32_t bytes) {
    int space = simulator::spaceAt(B::srcPosition);
    uint32_t& top = simulator::core->top[space];
    if (!bytes) simulator::reportViolation("E-INIT-ZERO", "InitBuffer: the length is 0");
    if (B::isTQue && number > int(simulator::chip().queue_buffers))
      simulator::endRun("E-INIT-QUEUE", "InitBuffer: %d buffers in one queue, but at most %d are possible", number, int(simulator::chip().queue_buffers));
    buffer.start = top;
    buffer.each = (bytes + 31) / 32 * 32;
    buffer.number = number;
    buffer.slot = simulator::core->buffers;
    uint64_t used = uint64_t(top - simulator::SPACE_START[space]) + uint64_t(buffer.each) * uint64_t(number);
    if (used > simulator::spaceBytes(space))  // an access behind the end of the memory ends the run
      simulator::addNote("W-UB-FULL", "InitBuffer: with %d x %u bytes, %llu bytes of %s are announced, but the core has %u", number, buffer.each,
                   (unsigned long long)used, simulator::spaceName(space), uint32_t(simulator::spaceBytes(space)));
    top = simulator::SPACE_START[space] + uint32_t(used);
    simulator::core->buffers += uint32_t(number);
    if (simulator::core->buffers > std::min<double>(simulator::chip().max_buffers, simulator::Core::MOST_BUFFERS))
      simulator::endRun("E-INIT-BUFFERS", "InitBuffer: more than %d buffers in one TPipe", int(simulator::chip().max_buffers));
    buffer.simulatorReset();
    if (space == simulator::UB) simulator::core->counts.ubPeak = std::max(simulator::core->counts.ubPeak, uint32_t(used));
    return true;
  }
};

}  // namespace AscendC
