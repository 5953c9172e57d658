// Launches that run in parts: which groups run, and what they write.
#include "parts.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "core.h"
#include "group_ranges.h"

namespace simulator {

namespace {

std::map<uintptr_t, std::unique_ptr<Written>> records, before;  // of this call, and of the last dry call
GroupRanges groupRanges;   // of the last complete dry call
uint64_t lastMeeting = 0;  // after which groups can run alone, or 0
std::map<std::pair<int64_t, int64_t>, uint64_t> dryWork;  // by launch of the call and group
std::map<std::tuple<int64_t, uint64_t, bool, int64_t>, uint64_t> dryWorkAtMeeting;  // by launch, meeting, whether it is a cube core, and block
bool differs = false;
double deadline = 0;
std::set<uintptr_t> zeros;  // tensors of this call that start as zeros
constexpr uint64_t CHECKED_EVERY = 4096;
constexpr uint64_t HASH_START = 1469598103934665603ull, HASH_PRIME = 1099511628211ull;  // FNV-1a

uint64_t overlapping(const ByteRange& range, uint64_t start, uint64_t stop, uint64_t& from) {
  from = std::max(range.start, start);
  uint64_t to = std::min(range.stop, stop);
  return to > from ? to - from : 0;
}

// The instructions of a core. The time of copies is left out: it depends on the blocks that run before and at the same time.
uint64_t hashWork(const Counts& c) {
  uint64_t hash = HASH_START;
  for (uint64_t count : {c.vectorCalls, c.copies, c.bytesIn, c.bytesOut, c.scalarGm, c.scalarUb, c.macs}) hash = (hash ^ count) * HASH_PRIME;
  for (int pipe : {S, V, M, MTE1, FIX}) {
    uint64_t bits;
    memcpy(&bits, &c.busy[pipe], sizeof bits);
    hash = (hash ^ bits) * HASH_PRIME;
  }
  return hash;
}

Written& recordIn(std::map<uintptr_t, std::unique_ptr<Written>>& all, uintptr_t at, uint64_t bytes) {
  std::unique_ptr<Written>& record = all[at];
  if (!record || record->bytes() != bytes) record = std::make_unique<Written>(bytes);
  return *record;
}

}  // namespace

Choice& choice() {
  static Choice one;
  return one;
}

CallParts& callParts() {
  static CallParts one;
  return one;
}

void startCall() {
  if (choice().execution == Execution::PARTS || choice().execution == Execution::TOUCHING) before = std::move(records);
  records.clear();
  zeros.clear();
  callParts() = CallParts();
  differs = false;
  if (choice().execution == Execution::DRY || choice().execution == Execution::SAMPLE) {
    groupRanges.clear();
    lastMeeting = 0;
  }
  if (choice().execution == Execution::DRY) {
    dryWork.clear();
    dryWorkAtMeeting.clear();
  }
}

bool endsAtMeeting() { return lastMeeting && choice().execution == Execution::PARTS && !choice().groups.empty(); }

bool isChosen(int64_t group) {
  return !endsAtMeeting() || std::find(choice().groups.begin(), choice().groups.end(), group) != choice().groups.end();
}
bool isLeftOut(int64_t group) { return endsAtMeeting() && callParts().meetings >= lastMeeting && !isChosen(group); }

void forgetGroups() { groupRanges.clear(); }

void noteGroup(int64_t group, const std::vector<const Counts*>& cores) {
  if (isLeftOut(group)) return;
  std::pair<int64_t, int64_t> key{callParts().launches, group};
  uint64_t work = 0;
  double bytesMoved = 0;
  for (const Counts* c : cores) {
    work = (work ^ hashWork(*c)) * HASH_PRIME;
    bytesMoved += double(c->bytesIn) + double(c->bytesOut);
  }
  if (choice().execution == Execution::DRY && !callParts().fellShort) groupRanges.finish(group, bytesMoved);
  if (choice().isDry()) {
    dryWork[key] = work;
    return;
  }
  auto dry = dryWork.find(key);
  if (choice().execution == Execution::PARTS && dry != dryWork.end() && dry->second != work) differs = true;
}

void noteMeeting(const std::vector<Core*>& cores) {
  for (const Core* one : cores) {
    std::tuple<int64_t, uint64_t, bool, int64_t> key{callParts().launches, callParts().meetings, one->isCube, one->blockIndex};
    if (choice().execution == Execution::DRY) dryWorkAtMeeting[key] = hashWork(one->counts);
    else if (endsAtMeeting() && callParts().meetings <= lastMeeting && dryWorkAtMeeting[key] != hashWork(one->counts)) differs = true;
  }
}

bool matchesDry() { return !differs; }

void noteWrite(Written& record, uint64_t start, uint64_t bytes, bool adds) {
  int64_t group = groupOf(*core);
  if (record.bytes()) callParts().isOutputWritten = true;
  if (choice().execution == Execution::DRY && record.bytes())
    for (const auto& one : records)
      if (one.second.get() == &record) groupRanges.add(group, one.first, record.bytes(), start, bytes);
  if (choice().execution == Execution::TOUCHING && !callParts().touching.count(group))
    for (const auto& one : records) {
      if (one.second.get() != &record) continue;
      auto wanted = before.find(one.first);
      if (wanted != before.end() && wanted->second->overlaps(start, bytes)) callParts().touching.insert(group);
    }
  if (adds && !callParts().groupsAdd && record.bytes()) callParts().groupsAdd = record.isShared(start, bytes, uint32_t(group));
  record.add(start, bytes);
}

Written* writtenAt(const void* data, uint64_t bytes) {
  if (choice().isWhole()) return nullptr;
  return &recordIn(records, reinterpret_cast<uintptr_t>(data), bytes);
}

std::vector<ByteRange> writtenRanges(const void* data, uint64_t bytes) {
  auto found = records.find(reinterpret_cast<uintptr_t>(data));
  return found == records.end() || found->second->bytes() != bytes ? std::vector<ByteRange>() : found->second->ranges();
}

Written* ignored() {
  static Written none;
  return &none;
}

void forgetWritten(const void* data) {
  records.erase(reinterpret_cast<uintptr_t>(data));
  zeros.erase(reinterpret_cast<uintptr_t>(data));
}

void noteZeros(const void* data) { zeros.insert(reinterpret_cast<uintptr_t>(data)); }

void copyWritten(void* to, const void* from, uint64_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(from);
  auto found = records.upper_bound(at);
  bool isKnown = found != records.begin() && to != from;
  if (isKnown) --found;
  Written* target = writtenAt(to, bytes);
  if (!isKnown) return;
  uint64_t skip = at - found->first;
  if (zeros.count(found->first)) noteZeros(to);
  if (skip >= found->second->bytes()) return;
  groupRanges.copy(reinterpret_cast<uintptr_t>(to), found->first, skip, bytes);
  for (const ByteRange& range : found->second->ranges()) {
    uint64_t start, length = overlapping(range, skip, skip + bytes, start);
    if (!length) continue;
    target->add(start - skip, length);
    if (!choice().isDry()) memcpy(static_cast<uint8_t*>(to) + (start - skip), reinterpret_cast<const uint8_t*>(found->first) + start, length);
  }
}

void clearOutput(void* data, uint64_t bytes) {
  if (choice().isWhole()) {
    memset(data, 0, bytes);
    return;
  }
  noteZeros(data);
  auto located = before.find(reinterpret_cast<uintptr_t>(data));
  if (choice().isDry() || located == before.end()) return;
  for (const ByteRange& range : located->second->ranges()) memset(static_cast<uint8_t*>(data) + range.start, 0, range.stop - range.start);
}

std::vector<int64_t> groupOrder(int64_t groups, int64_t perWave) {
  std::vector<int64_t> order = choice().groups;
  if (!order.empty()) return order;
  if (choice().execution == Execution::PARTS) {  // in the order of an ordinary launch
    order.resize(size_t(groups));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  bool isSample = choice().execution == Execution::SAMPLE;
  std::mt19937_64 random(uint64_t(groups) * 2654435761u);
  std::vector<int64_t> ends, rest;
  for (int64_t first = 0; first < groups; first += perWave) {
    int64_t last = std::min(groups, first + perWave) - 1;
    ends.push_back(first);
    if (last > first) ends.push_back(last);
    std::vector<int64_t> inner;
    for (int64_t group = first + 1; group < last; group++) inner.push_back(group);
    std::shuffle(inner.begin(), inner.end(), random);
    if (isSample) inner.resize(size_t(std::clamp<int64_t>(choice().perWave - 2, 0, int64_t(inner.size()))));
    rest.insert(rest.end(), inner.begin(), inner.end());
  }
  std::shuffle(rest.begin(), rest.end(), random);
  ends.insert(ends.end(), rest.begin(), rest.end());
  return ends;
}

double cpuSeconds() { return double(std::clock()) / CLOCKS_PER_SEC; }
void setDeadline(double seconds) { deadline = cpuSeconds() + seconds; }
bool isLate() { return cpuSeconds() > deadline; }

void checkDeadline() {
  static uint64_t calls = 0;
  if (++calls % CHECKED_EVERY == 0 && isLate()) throw OutOfTime();
}

void guess() {
  run.guesses++;
  checkDeadline();
}

}  // namespace simulator

using simulator::callParts;

void simulator_choose(int execution, const int64_t* groups, int64_t count) {
  simulator::Choice& wanted = simulator::choice();
  wanted = simulator::Choice();
  wanted.execution = static_cast<simulator::Execution>(execution);
  if (groups) wanted.groups.assign(groups, groups + count);
  else if (count > 0) wanted.perWave = count;
}

void simulator_end_choice() { simulator::choice() = simulator::Choice(); }

int64_t simulator_part_count() {
  return callParts().launches == 1 && (!callParts().blocksDepend || simulator::lastMeeting) ? callParts().groups : 1;
}
int simulator_splits_at_meeting(double macs) {
  const simulator::CallParts& last = callParts();
  bool isOrderly = last.launches == 1 && last.blocksDepend && !last.dependsOtherwise && !last.isWrittenEarly && !last.groupsAdd && last.macs >= macs;
  simulator::lastMeeting = isOrderly && !last.fellShort && simulator::zeros.empty() ? last.meetings : 0;
  return simulator::lastMeeting != 0;
}
int simulator_holds_split() {
  return !simulator::endsAtMeeting() || (callParts().meetings == simulator::lastMeeting && !callParts().dependsOtherwise);
}
void simulator_forget_split() { simulator::lastMeeting = 0; }
int simulator_locate(const int64_t* groups, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!simulator::groupRanges.knows(groups[i])) return 0;
  simulator::records.clear();
  callParts().bytesMoved = 0;
  for (int64_t i = 0; i < count; i++) {
    callParts().bytesMoved += simulator::groupRanges.bytesMoved(groups[i]);
    simulator::groupRanges.addTo(
        groups[i], [](uintptr_t tensor, uint64_t size) -> simulator::Written& { return simulator::recordIn(simulator::records, tensor, size); });
  }
  return 1;
}
int64_t simulator_blocks_run() { return callParts().blocksRun; }
int64_t simulator_guesses() { return int64_t(callParts().guesses); }
int simulator_fell_short() { return callParts().fellShort; }
int simulator_groups_add() { return callParts().groupsAdd; }
int64_t simulator_touching(int64_t* into, int64_t capacity) {
  int64_t count = 0;
  for (int64_t group : callParts().touching) {
    if (count < capacity) into[count] = group;
    count++;
  }
  return count;
}
double simulator_bytes_moved() { return callParts().bytesMoved; }

int simulator_has_zeros() { return int(!simulator::zeros.empty()); }
int simulator_starts_as_zeros(const void* data) { return int(simulator::zeros.count(reinterpret_cast<uintptr_t>(data))); }

int64_t simulator_ranges(const void* data, int64_t bytes, int64_t* into, int64_t capacity) {
  std::vector<simulator::ByteRange> ranges = simulator::writtenRanges(data, uint64_t(bytes));
  for (size_t i = 0; i < ranges.size() && int64_t(i) < capacity; i++) {
    into[2 * i] = int64_t(ranges[i].start);
    into[2 * i + 1] = int64_t(ranges[i].stop);
  }
  return int64_t(ranges.size());
}
