// TPipe hands out local memory; queues pass buffers from pipe to pipe; TBuf is memory that nobody orders.
#pragma once
#include "tensors.h"

namespace twin {

constexpr int filledBy(AscendC::TPosition position) {  // the pipe that writes buffers of such a queue
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

// Buffers of queues hold event ids: from EnQue to DeQue, and from FreeTensor to the AllocTensor that hands them out again. The library
// counts on when there are no more ids; what then waits, waits for nothing that exists.
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
    broken("E-QUE-EVENTS", "%s waits for event id %d of PIPE_%s to PIPE_%s: buffers of queues hold more than the %d ids there are", what, id,
           pipeName(from), pipeName(to), int(chip().event_ids));
}

}  // namespace twin

namespace AscendC {

using TEventID = int32_t;
class TPipe;
inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(twin::core->pipe); }

// What InitBuffer fills in.
class Buffers {
 public:
  uint32_t start = 0, each = 0;
  int number = 0;

 protected:
  template <typename T> LocalTensor<T> tensor(int index, TPosition position, uint32_t bytes) const {
    LocalTensor<T> made;
    made.low = made.address = start + uint32_t(index) * each;
    made.high = made.low + each;
    made.length = bytes / uint32_t(sizeof(T));
    made.position = position;
    made.allocated = true;
    int space = twin::spaceAt(position);
    if (made.high > twin::SPACE_START[space] + uint32_t(twin::spaceBytes(space)))
      twin::stop(space == twin::UB ? "E-UB-FULL" : "E-L1-FULL", "a tensor of a buffer that lies behind the end of %s", twin::spaceName(space));
    return made;
  }
};

// How a queue may be configured; the order of buffers is the same whatever it says.
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
  enum State : uint8_t { FREE, TAKEN, QUEUED, PASSED };

  void twinReset() {
    for (auto& state : states) state = FREE;
    for (auto& event : freed) event = {};
    first = waiting = next = 0;
  }
  template <typename T> LocalTensor<T> AllocTensor() {
    if (!number) twin::stop("E-QUE-INIT", "AllocTensor before pipe.InitBuffer gave this queue any memory");
    for (int k = 0; k < number; k++) {
      int index = (next + k) % number;
      if (states[index] != FREE) continue;
      states[index] = TAKEN;
      next = (index + 1) % number;
      await(index, "AllocTensor");
      return tensor<T>(index, srcPosition, each);
    }
    twin::stop("E-QUE-ALLOC", "AllocTensor: all %d buffers of the queue are in use", number);
  }
  template <typename T> void AllocTensor(LocalTensor<T>& into) { into = AllocTensor<T>(); }
  template <typename T> bool EnQue(const LocalTensor<T>& given) { return put(given, FILL); }
  template <typename T> bool EnQue(LocalTensor<T>& given) { return put(given, FILL); }
  template <TPosition srcUser, TPosition dstUser, typename T> bool EnQue(const LocalTensor<T>& given) { return put(given, srcUser == TPosition::GM ? twin::MTE2 : twin::V); }
  template <typename T> LocalTensor<T> DeQue() { return take<T>(EMPTY); }
  void DeQue() { take<uint8_t>(EMPTY); }
  template <typename T> void DeQue(LocalTensor<T>& into) { into = DeQue<T>(); }
  template <TPosition srcUser, TPosition dstUser, typename T> LocalTensor<T> DeQue() { return take<T>(dstUser == TPosition::GM ? twin::MTE3 : twin::V); }
  template <typename T> void FreeTensor(const LocalTensor<T>& given) {
    int index = indexOf(given, "FreeTensor");
    if (states[index] == FREE) twin::stop("E-QUE-FREE", "FreeTensor of a tensor that is free already");
    if (states[index] == QUEUED) twin::stop("E-QUE-LOST", "FreeTensor of a tensor that still waits in the queue: DeQue it first");
    states[index] = FREE;
    twin::core->raise(freed[index], EMPTY);
    freedId[index] = twin::takeId(EMPTY, FILL);
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
      if (states[i] == FREE) return true;
    return false;
  }
  void InitStartBufHandle(uint32_t, uint32_t, uint32_t) {}

 private:
  static constexpr int MOST = 64;
  static constexpr int FILL = twin::filledBy(srcPosition);
  static constexpr int EMPTY = twin::emptiedBy(to == TPosition::GM ? from : to);
  State states[MOST] = {};
  twin::Event filled[MOST], freed[MOST];
  int8_t filledId[MOST] = {}, freedId[MOST] = {};
  int order[MOST] = {}, first = 0, waiting = 0, next = 0;

  // Until whoever used the buffer last is done with it.
  void await(int index, const char* what) {
    if (!freed[index].set) return;
    twin::returnId(EMPTY, FILL, freedId[index], what);
    twin::core->wait(freed[index], FILL);
    freed[index].set = false;
  }
  template <typename T> bool put(const LocalTensor<T>& given, int pipe) {
    int index = indexOf(given, "EnQue");
    if (states[index] == FREE) twin::stop("E-QUE-ENQUE", "EnQue of a tensor that is not allocated, or was freed already");
    if (states[index] == QUEUED) twin::stop("E-QUE-TWICE", "EnQue of a tensor that is in the queue already");
    if (waiting >= (depth > 0 ? depth : 1)) twin::broken("E-QUE-DEPTH", "EnQue: %d tensors wait in a queue of depth %d", waiting + 1, int(depth));
    if (waiting >= MOST) twin::stop("E-QUE-DEPTH", "EnQue: %d tensors wait in a queue of depth %d", waiting + 1, int(depth));
    states[index] = QUEUED;
    twin::core->raise(filled[index], pipe);
    filledId[index] = twin::takeId(FILL, EMPTY);
    order[(first + waiting++) % MOST] = index;
    return true;
  }
  template <typename T> LocalTensor<T> take(int pipe) {
    if (!waiting) twin::stop("E-QUE-EMPTY", "DeQue from an empty queue: without an EnQue before it, the core waits for ever");
    int index = order[first];
    first = (first + 1) % MOST;
    waiting--;
    states[index] = PASSED;
    twin::returnId(FILL, EMPTY, filledId[index], "DeQue");
    twin::core->wait(filled[index], pipe);
    return tensor<T>(index, srcPosition, each);
  }
  template <typename T> int indexOf(const LocalTensor<T>& given, const char* what) const {
    if (!given.allocated) twin::stop("E-UB-NULL", "%s of a LocalTensor that was never allocated", what);
    bool mine = each && given.low >= start && given.low < start + each * uint32_t(number) && (given.low - start) % each == 0;
    if (!mine) twin::stop("E-QUE-FOREIGN", "%s of a tensor that does not belong to this queue", what);
    return int((given.low - start) / each);
  }
};

template <TPosition position, int32_t depth, auto mask = 0> class TQue : public TQueBind<position, position, depth, mask> {};

template <TPosition position = TPosition::VECCALC> class TBuf : public Buffers {
 public:
  static constexpr TPosition srcPosition = position;
  static constexpr bool isTQue = false;
  void twinReset() {}
  template <typename T> LocalTensor<T> Get() { return get<T>(each / uint32_t(sizeof(T))); }
  template <typename T> LocalTensor<T> Get(uint32_t elements) { return get<T>(elements); }
  template <typename T> LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset) {
    LocalTensor<T> made = get<T>(0);
    made.address += offset;
    made.length = elements;
    if (made.address + elements * sizeof(T) > made.high)
      twin::broken("E-BUF-GET", "TBuf.GetWithOffset: %zu bytes from %u on, of %u", size_t(elements * sizeof(T)), offset, each);
    return made;
  }
  template <typename T> LocalTensor<T> AllocTensor() { return Get<T>(); }
  template <typename T> void FreeTensor(const LocalTensor<T>&) {}
  template <typename T> void EnQue(const LocalTensor<T>&) {}
  template <typename T> LocalTensor<T> DeQue() { return Get<T>(); }
  uint32_t GetBufLen() const { return each; }

 private:
  template <typename T> LocalTensor<T> get(uint32_t elements) {
    if (!number) twin::stop("E-BUF-INIT", "TBuf.Get before pipe.InitBuffer gave it any memory");
    if (uint64_t(elements) * sizeof(T) > each)
      twin::broken("E-BUF-GET", "TBuf.Get: %llu bytes of a buffer of %u", (unsigned long long)(uint64_t(elements) * sizeof(T)), each);
    return tensor<T>(0, position, elements * uint32_t(sizeof(T)));
  }
};

class TPipe {
 public:
  TPipe() {
    Reset();
    twin::core->pipe = this;
  }
  ~TPipe() {
    if (twin::core->pipe == this) twin::core->pipe = nullptr;
    Reset();
  }
  void Init() {}
  void Destroy() { Reset(); }
  void Reset() {  // what was handed out before may be handed out again
    for (int space = 0; space < twin::SPACES; space++) twin::core->top[space] = twin::SPACE_START[space];
    twin::core->buffers = 0;
    memset(twin::core->idsTaken, 0, sizeof twin::core->idsTaken);
    for (auto& used : eventsUsed) used = 0;
  }
  template <class Q> bool InitBuffer(Q& queue, uint8_t number, uint32_t bytes) { return give(queue, number, bytes); }
  template <class B> bool InitBuffer(B& buffer, uint32_t bytes) { return give(buffer, 1, bytes); }

  template <HardEvent event> TEventID AllocEventID() { return AllocEventID(event); }
  TEventID AllocEventID(HardEvent event) {
    uint8_t& used = eventsUsed[int(event)];
    for (int id = 0; id < int(twin::chip().event_ids); id++) {
      if (used & (1 << id)) continue;
      used = uint8_t(used | (1 << id));
      return id;
    }
    twin::stop("E-EVENT-IDS", "AllocEventID: all %d ids of this pair of pipes are taken: ReleaseEventID those that are done", int(twin::chip().event_ids));
  }
  template <HardEvent event> void ReleaseEventID(TEventID id) { ReleaseEventID(event, id); }
  void ReleaseEventID(HardEvent event, TEventID id) { eventsUsed[int(event)] = uint8_t(eventsUsed[int(event)] & ~(1 << (id & 7))); }
  template <HardEvent event> TEventID FetchEventID() { return FetchEventID(event); }
  TEventID FetchEventID(HardEvent event) {
    for (int id = 0; id < int(twin::chip().event_ids); id++)
      if (!(eventsUsed[int(event)] & (1 << id))) return id;
    return 0;
  }
  template <TPosition position> LocalTensor<uint8_t> GetAbsAddr(int32_t offset, int32_t bytes) const { return LocalTensor<uint8_t>(position, uint32_t(offset), uint32_t(bytes)); }
  template <TPosition position, typename T> LocalTensor<T> GetAbsAddr(int32_t offset, int32_t elements) const { return LocalTensor<T>(position, uint32_t(offset), uint32_t(elements)); }

 private:
  uint8_t eventsUsed[64] = {};

  template <class B> bool give(B& buffer, int number, uint32_t bytes) {
    int space = twin::spaceAt(B::srcPosition);
    uint32_t& top = twin::core->top[space];
    if (!bytes) twin::broken("E-INIT-ZERO", "InitBuffer with a length of 0");
    if (B::isTQue && number > int(twin::chip().queue_buffers))
      twin::stop("E-INIT-QUEUE", "InitBuffer: %d buffers in one queue, %d at most", number, int(twin::chip().queue_buffers));
    buffer.start = top;
    buffer.each = (bytes + 31) / 32 * 32;
    buffer.number = number;
    buffer.twinReset();
    uint64_t used = uint64_t(top - twin::SPACE_START[space]) + uint64_t(buffer.each) * uint64_t(number);
    if (used > twin::spaceBytes(space))  // silicon does not look; a tensor from there is the end
      twin::broken(space == twin::UB ? "E-UB-FULL" : "E-L1-FULL", "InitBuffer: %d x %u bytes make %llu bytes of %s in use, and the core has %u", number,
                 buffer.each, (unsigned long long)used, twin::spaceName(space), uint32_t(twin::spaceBytes(space)));
    top = twin::SPACE_START[space] + uint32_t(used);
    twin::core->buffers += uint32_t(number);
    if (twin::core->buffers > twin::chip().max_buffers)
      twin::stop("E-INIT-BUFFERS", "InitBuffer: more than %d buffers in one TPipe", int(twin::chip().max_buffers));
    if (space == twin::UB) twin::core->counts.ubPeak = std::max(twin::core->counts.ubPeak, uint32_t(used));
    return true;
  }
};

}  // namespace AscendC
