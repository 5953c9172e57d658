// The cost of a copy. All cores share the memory; one core sends requests without waiting for responses.
#include "traffic.h"

#include <vector>

#include "core.h"
#include "lazy.h"

namespace simulator {

namespace {

constexpr uint64_t LINE = 128, SECTOR = 512;  // L2: bytes per counted miss; memory: alignment of requests
constexpr double WORTH_KNOWING = 1.1;

std::vector<Lazy<uint32_t>> kept;
double footprint = 0;

struct Lead {  // the start of a copy of the first block, and the number of blocks with the same copy
  uintptr_t sector;
  double blocks;
};
constexpr size_t LEADS = 1 << 16;
std::vector<Lead> leads;
int64_t leader = -1, readers = 0;  // the first block with a copy; blocks with copies so far

void refit() { run.fits = footprint < chip().l2_share * chip().l2_bytes; }

}  // namespace

void shareMemory(double bytes, double cores, bool together) {
  const Chip& c = chip();
  footprint = bytes;
  refit();
  run.hbmRate = c.hbm_bytes_per_cycle / cores;
  run.l2Rate = c.l2_bytes_per_cycle / cores;
  run.moved = 0;
  run.cores = cores;
  leads.clear();
  leader = -1;
  readers = 0;
  run.reach = uint32_t(c.l2_share * c.l2_bytes / LINE / (together ? 1 : cores));
  kept.clear();
  if (run.fits && !c.cold_l2) return;
  for (Region& region : run.regions) {
    kept.emplace_back((region.high - region.low) / LINE + 2, true);
    region.lines = kept.back().get();
  }
}

void forgetLines() {
  for (Lazy<uint32_t>& lines : kept) lines.clear();
  run.moved = 0;
}

void passBy(const Region* region, bool past) {
  if (!region || region->past == past) return;
  run.regions[size_t(region - run.regions.data())].past = past;
  footprint += (past ? -1.0 : 1.0) * double(region->high - region->low);
  refit();
}

double beyondL2(const Traffic& rows, bool writes) {
  if (rows.region && rows.region->past) return rows.bytes();
  if (run.fits && (writes || !chip().cold_l2)) return 0;
  if (!rows.region || !rows.region->lines || !rows.length) return rows.bytes();
  double missed = 0;
  for (uint64_t row = 0; row < rows.count; row++) {
    uint64_t start = rows.offset + row * rows.pitch, first = start / LINE, last = (start + rows.length - 1) / LINE;
    uint64_t misses = 0;
    for (uint64_t line = first; line <= last; line++) {
      uint32_t& moved = rows.region->lines[line];
      misses += moved <= core->cold || run.moved - moved >= run.reach;
      moved = ++run.moved;
    }
    missed += double(rows.length) * double(misses) / double(last - first + 1);
  }
  return writes ? rows.bytes() : missed;  // written data leave L2 eventually
}

double spread(const Traffic& rows) {
  if (!rows.length || !rows.count) return 1;
  uint64_t needed = (rows.length + SECTOR - 1) / SECTOR, touched = 0;
  for (uint64_t row = 0; row < rows.count; row++) touched += ((rows.offset + row * rows.pitch) % SECTOR + rows.length + SECTOR - 1) / SECTOR;
  return double(touched) / double(needed * rows.count);
}

double readersOf(const Traffic& rows) {
  uint64_t index = core->copiesIn++;
  if (!index) readers++;
  if (leader < 0) leader = core->blockIndex;
  if (index >= LEADS) return 1;
  uintptr_t sector = rows.region ? (rows.region->low + rows.offset) / SECTOR : 0;
  if (core->blockIndex == leader) {
    leads.push_back({sector, 1});
    return 1;
  }
  if (!sector || index >= leads.size() || leads[index].sector != sector) return 1;
  return std::max(1.0, ++leads[index].blocks / double(readers) * run.cores);
}

// Its data arrive after the memory latency, at the rate of the core, and not before the traffic of all cores allows it; the next copy starts earlier.
void Core::move(int pipe, const Traffic& rows) {
  const Chip& c = chip();
  if (isUnsettled) settle();
  double bytes = rows.bytes(), outside = beyondL2(rows, pipe != MTE2);
  double slower = std::min(c.unaligned_gm, spread(rows)), aligned = 1 / slower;
  if (slower > WORTH_KNOWING) addNote("W-GM-512", "copies of %llu bytes do not start at multiples of 512 bytes", (unsigned long long)rows.length);
  if (pipe == MTE2) slower *= 1 + c.same_address * (readersOf(rows) - 1);
  if (rows.region && rows.region->past) outside += c.bypass_request * double(rows.count);
  time[S] += c.issue;
  double start = started[pipe] = std::max(time[pipe], time[S]), latency = c.copy(0);
  hbmPort += slower * outside / run.hbmRate;
  l2Port += slower * bytes / run.l2Rate;
  double stream = slower * (std::max(0.0, bytes - outside) / c.longCopyRate() + outside / c.core_hbm_bytes_per_cycle);
  double alone = std::max(slower * c.copy(bytes), outside > 0 ? latency + stream : 0.0), conversion = rows.rowCycles * double(rows.count);
  stream = std::max(stream, conversion);
  if (conversion > 0) alone = std::max(alone, latency + conversion);
  double end = std::max({start + alone, hbmPort, l2Port, late[pipe]});
  counts.busy[pipe] += end - std::max(start, std::min(late[pipe], end));
  counts.copies++;
  (pipe == MTE2 ? counts.bytesIn : counts.bytesOut) += uint64_t(bytes);
  time[pipe] = std::min(end, std::max(start + std::max(c.copy_start, stream), end - latency));
  late[pipe] = end;
  clock[pipe][pipe] = ++epoch[pipe];
  if (__builtin_expect(isRecording, 0)) {
    Step step{StepKind::MOVE, uint8_t(pipe)};
    step.region = rows.region ? uint32_t(rows.region - run.regions.data()) + 1 : 0;
    step.cycles = alone;
    step.fixed = aligned;
    step.a = stream;
    step.b = slower * outside / run.hbmRate;
    step.c = slower * bytes / run.l2Rate;
    step.d = bytes;
    record(step);
  }
}

void Core::move(int pipe, double bytes, bool aligned) {
  Traffic rows;
  rows.length = rows.pitch = uint64_t(bytes);
  rows.offset = aligned ? 0 : BLOCK;
  move(pipe, rows);
}

}  // namespace simulator
