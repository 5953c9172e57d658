// The cost of a copy. All cores share the memory; one core sends requests without waiting for responses.
#include "traffic.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "core.h"

namespace simulator {

namespace {

constexpr uint64_t LINE = 128, SECTOR = 512;  // L2: bytes per counted miss; memory: alignment of requests
constexpr double WORTH_KNOWING = 1.1;

struct Release {
  void operator()(uint32_t* lines) const { free(lines); }
};
std::vector<std::unique_ptr<uint32_t, Release>> kept;
double footprint = 0;

void refit() { run.fits = footprint < chip().l2_share * chip().l2_bytes; }

}  // namespace

void shareMemory(double bytes, double cores, bool together) {
  const Chip& c = chip();
  footprint = bytes;
  refit();
  run.hbmRate = c.hbm_bytes_per_cycle / cores;
  run.l2Rate = c.l2_bytes_per_cycle / cores;
  run.moved = 0;
  run.reach = uint32_t(c.l2_share * c.l2_bytes / LINE / (together ? 1 : cores));
  kept.clear();
  if (run.fits) return;
  for (Region& region : run.regions) {
    kept.emplace_back(static_cast<uint32_t*>(calloc((region.high - region.low) / LINE + 2, sizeof(uint32_t))));
    region.lines = kept.back().get();
  }
}

void passBy(const Region* region, bool past) {
  if (!region || region->past == past) return;
  run.regions[size_t(region - run.regions.data())].past = past;
  footprint += (past ? -1.0 : 1.0) * double(region->high - region->low);
  refit();
}

double beyondL2(const Traffic& rows, bool writes) {
  if (rows.region && rows.region->past) return rows.bytes();
  if (run.fits) return 0;
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

// Its data arrive after the memory latency, at the rate of the core, and not before the traffic of all cores allows it; the next copy starts earlier.
void Core::move(int pipe, const Traffic& rows) {
  const Chip& c = chip();
  if (!stale.empty()) hideStale();
  double bytes = rows.bytes(), outside = beyondL2(rows, pipe != MTE2);
  double slower = std::min(c.unaligned_gm, spread(rows));
  if (slower > WORTH_KNOWING) addNote("W-GM-512", "copies of %llu bytes do not start at multiples of 512 bytes", (unsigned long long)rows.length);
  time[S] += c.issue;
  double start = started[pipe] = std::max(time[pipe], time[S]), latency = c.copy(0);
  hbmPort += slower * outside / run.hbmRate;
  l2Port += slower * bytes / run.l2Rate;
  double stream = slower * ((bytes - outside) / c.longCopyRate() + outside / c.core_hbm_bytes_per_cycle);
  double alone = std::max(slower * c.copy(bytes), outside > 0 ? latency + stream : 0.0);
  double end = std::max({start + alone, hbmPort, l2Port, late[pipe]});
  counts.busy[pipe] += end - std::max(start, std::min(late[pipe], end));
  counts.copies++;
  (pipe == MTE2 ? counts.bytesIn : counts.bytesOut) += uint64_t(bytes);
  time[pipe] = std::min(end, std::max(start + std::max(c.copy_start, stream), end - latency));
  late[pipe] = end;
  clock[pipe][pipe] = ++epoch[pipe];
}

void Core::move(int pipe, double bytes, bool aligned) {
  Traffic rows;
  rows.length = rows.pitch = uint64_t(bytes);
  rows.offset = aligned ? 0 : BLOCK;
  move(pipe, rows);
}

}  // namespace simulator
