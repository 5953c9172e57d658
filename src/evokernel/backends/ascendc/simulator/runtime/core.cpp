// One core: code that is not needed in every access.
#include "core.h"

#include <cstdlib>
#include <new>
#include <sstream>
#include <string>
#include <sys/mman.h>

namespace simulator {

Run run;
Core* core = nullptr;

Chip& chip() {
  static Chip one;
  return one;
}

double spaceBytes(int space) {
  const Chip& c = chip();
  const double bytes[] = {c.ub_bytes, c.l1_bytes, c.l0a_bytes, c.l0b_bytes, c.l0c_bytes, c.bt_bytes, c.fb_bytes};
  return bytes[space];
}

Core::Core() {
  local = static_cast<uint8_t*>(mmap(nullptr, LOCAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  seen = static_cast<uint8_t*>(mmap(nullptr, LOCAL_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (local == MAP_FAILED || seen == MAP_FAILED) throw std::bad_alloc();
  known = static_cast<uint8_t*>(malloc(LOCAL_BYTES));
  before = static_cast<uint8_t*>(malloc(LOCAL_BYTES));
  if (!known || !before) throw std::bad_alloc();
  memset(local, filling, LOCAL_BYTES);
  memset(known, 0, LOCAL_BYTES);
  reset(0);
}

Core::~Core() {
  munmap(local, LOCAL_BYTES);
  munmap(seen, LOCAL_BYTES);
  free(known);
  free(before);
}

bool Core::open() {
  if (!isOpen) isOpen = mremap(local, 0, LOCAL_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, seen) != MAP_FAILED;
  return isOpen;
}

void Core::reset(int64_t block) {
  if (isOpen) mmap(seen, LOCAL_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  isOpen = false;
  blockIndex = block;
  hbmPort = l2Port = 0;
  cold = run.moved;
  copiesIn = 0;
  buffers = 0;
  mask = compared = Mask();
  maskCounts = false;
  maskElements = 0;
  registers = Registers();
  writer = 0;
  memset(idsTaken, 0, sizeof idsTaken);
  atomic = Atomic::NONE;
  pipe = nullptr;
  counts = Counts();
  isLeftOut = false;
  checksLess = level == FAST || run.isDry;
  uint8_t fresh = run.isDry ? 0 : 0xA5;  // a number that the kernel takes for an index or an offset must be in bounds
  if (fresh != filling) memset(local, fresh, LOCAL_BYTES);
  filling = fresh;
  knownLow = LOCAL_BYTES;
  knownHigh = 0;
  stale.clear();
  pendingCopies.clear();
  isUnsettled = false;
  for (int space = 0; space < SPACES; space++) {
    top[space] = SPACE_START[space];
    uint32_t start = SPACE_START[space], end = std::min(std::max(high[space], start), SPACE_START[space + 1]);
    memset(local + start, filling, end - start);
    memset(known + start, 0, end - start);
    history.clear(start / BLOCK, (end + BLOCK - 1) / BLOCK);
    high[space] = start;
  }
  memset(clock, 0, sizeof clock);
  for (int pipe = 0; pipe < PIPES; pipe++) {
    time[pipe] = late[pipe] = started[pipe] = 0;
    epoch[pipe] = clock[pipe][pipe] = 1;
  }
  for (auto& from : events)
    for (auto& to : from)
      for (Event& event : to) event = Event();
  memset(lines, 0xff, sizeof lines);
}

void Core::leaveOut() {
  if (isLeftOut) return;
  isLeftOut = checksLess = true;
  knownLow = 0;
  knownHigh = LOCAL_BYTES;
  memset(local, 0, LOCAL_BYTES);  // as at the start of a dry execution
  filling = 0;
}

void Core::finish() {
  if (isUnsettled) settle();
  for (int pipe = 0; pipe < PIPES; pipe++) counts.end = std::max(counts.end, finished(pipe));
}

void Core::raise(Event& event, int from) {
  event.time = finished(from);
  memcpy(event.clock, clock[from], sizeof event.clock);
  event.set = true;
  time[from] += chip().handshake;
  if (__builtin_expect(isRecording, 0)) {
    Step step{StepKind::RAISE, uint8_t(from)};
    step.slot = slotOf(event.slot);
    record(step);
  }
}

void Core::wait(const Event& event, int pipe, bool isReuse) {
  for (int other = 0; other < PIPES; other++) clock[pipe][other] = std::max(clock[pipe][other], event.clock[other]);
  time[pipe] = std::max(time[pipe], event.time) + chip().handshake;
  if (__builtin_expect(isRecording && event.slot, 0)) {
    Step step{StepKind::WAIT, uint8_t(pipe), isReuse};
    step.slot = event.slot;
    record(step);
  }
}

void Core::barrier() {
  if (__builtin_expect(isUnsettled, 0)) settle();
  double latest = 0;
  for (int pipe = 0; pipe < PIPES; pipe++) latest = std::max(latest, finished(pipe));
  for (int pipe = 0; pipe < PIPES; pipe++) {
    time[pipe] = latest + chip().flag;
    memcpy(clock[pipe], epoch, sizeof epoch);
  }
  if (__builtin_expect(isRecording, 0)) record({StepKind::BARRIER, S, PIPES});
}

void Core::barrier(int pipe) {
  time[pipe] = std::max(finished(pipe), time[S]) + chip().flag;
  if (__builtin_expect(isRecording, 0)) record({StepKind::BARRIER, uint8_t(pipe), uint8_t(pipe)});
}

void Core::race(int pipe, int other, uint32_t block, bool writes, bool wrote, const char* what) {
  uint32_t address = block * BLOCK;
  reportViolation("E-RACE", "%s on PIPE_%s %s %s bytes [%u, +32) %s PIPE_%s, but nothing orders the two pipes", what, pipeName(pipe),
         writes ? "overwrites" : "reads", spaceName(spaceOf(address)), inSpace(address),
         wrote ? "last written by" : "that may still be read by", pipeName(other));
}

void Core::scalarReads(uint32_t address, uint64_t bytes, const char* what) {
  if (run.isDry) guess();
  else reads(address, bytes, what);
}

// The reader started before the write was complete, so it reads what was there before.
void Core::showStale(uint32_t block) {
  if (level != HARDWARE) return;
  for (const Stale& one : stale)
    if (one.block == block) return;
  Stale one{block, {}};
  memcpy(one.bytes, local + block * BLOCK, BLOCK);
  memcpy(local + block * BLOCK, before + block * BLOCK, BLOCK);
  stale.push_back(one);
  isUnsettled = true;
}

void Core::settle() {
  for (const Stale& one : stale) memcpy(local + one.block * BLOCK, one.bytes, BLOCK);
  stale.clear();
  pendingCopies.repeat(local);
  isUnsettled = false;
}

void Core::unknown(uint32_t address, uint64_t bytes, const uint8_t* at, const char* what) {
  doubtful = true;
  if (tolerates) return;
  reportViolation("E-UNINIT", "%s reads %llu bytes at %s address %u, but the byte at +%ld is uninitialized or was computed from uninitialized data", what, (unsigned long long)bytes,
         spaceName(spaceOf(address)), inSpace(address), long(at - known - address));
}

}  // namespace simulator

int simulator_configure(const char* text) {
  simulator::Chip& c = simulator::chip();
  struct { const char* key; double* value; } fields[] = {
#define FIELD(name) {#name, &c.name}
      FIELD(aiv_cores), FIELD(aic_cores), FIELD(ghz), FIELD(ub_bytes), FIELD(l1_bytes), FIELD(l0a_bytes), FIELD(l0b_bytes), FIELD(l0c_bytes),
      FIELD(bt_bytes), FIELD(fb_bytes), FIELD(l2_bytes), FIELD(max_buffers), FIELD(event_ids), FIELD(queue_buffers), FIELD(issue),
      FIELD(vector_start), FIELD(reduce_start), FIELD(scalar_ub), FIELD(scalar_gm_hit), FIELD(scalar_gm_miss), FIELD(flag), FIELD(handshake), FIELD(dcache_lines),
      FIELD(hbm_bytes_per_cycle), FIELD(l2_bytes_per_cycle), FIELD(unaligned_gm), FIELD(cube_macs_half), FIELD(cube_macs_float), FIELD(cube_macs_int8),
      FIELD(l1_to_l0_bytes_per_cycle), FIELD(fixpipe_bytes_per_cycle), FIELD(launch_us), FIELD(sync_all),
      FIELD(l2_share), FIELD(copy_start), FIELD(core_hbm_bytes_per_cycle), FIELD(cold_l2), FIELD(bypass_request), FIELD(same_address),
      FIELD(matmul_bytes_per_cycle), FIELD(matmul_odd_bytes_per_cycle), FIELD(matmul_row), FIELD(matmul_start), FIELD(cube_start),
#undef FIELD
  };
  std::istringstream lines(text);
  std::string line;
  int unknown = 0;
  while (std::getline(lines, line)) {
    auto at = line.find('=');
    if (at == std::string::npos) continue;
    std::string key = line.substr(0, at);
    std::istringstream values(line.substr(at + 1));
    double* list = key == "copy_kib" ? c.copy_kib : key == "copy_cycles" ? c.copy_cycles : nullptr;
    if (list) {
      std::string one;
      for (int i = 0; i < simulator::Chip::COPY_POINTS && std::getline(values, one, ','); i++) list[i] = std::stod(one);
      continue;
    }
    bool found = false;
    for (auto& field : fields)
      if (key == field.key) found = bool(values >> *field.value);
    unknown += !found;
  }
  return unknown;
}
