// Properties of the simulated chip. simulator_configure sets every number from chips.toml; the defaults here are those of the 910B2.
#pragma once
#include <cstdint>

namespace simulator {

struct Chip {
  // cores and memories
  double aiv_cores = 48, aic_cores = 24;
  double ghz = 1.8;
  double ub_bytes = 192 * 1024, l1_bytes = 512 * 1024;
  double l0a_bytes = 64 * 1024, l0b_bytes = 64 * 1024, l0c_bytes = 128 * 1024;
  double bt_bytes = 1024, fb_bytes = 2048;
  double l2_bytes = 192.0 * 1024 * 1024;
  double max_buffers = 64, event_ids = 8, queue_buffers = 8;
  // cost model, in cycles of a core
  double issue = 10;           // scalar cycles per API call
  double vector_start = 22;    // fixed cycles of one vector instruction
  double reduce_start = 69;    // the same of one that combines lanes
  double scalar_ub = 11;       // one GetValue or SetValue in local memory
  double scalar_gm_hit = 11;   // the same in global memory, if the line is in the data cache
  double scalar_gm_miss = 300;
  double flag = 15;            // a barrier
  double handshake = 1.5;      // setting or waiting for a flag, EnQue or DeQue
  double dcache_lines = 512;   // of 64 bytes
  double hbm_bytes_per_cycle = 973 * 0.85;
  double l2_bytes_per_cycle = 2640;
  double l2_share = 0.8;       // data up to this share of the L2 capacity stay in L2
  double cold_l2 = 0;          // 1: no argument is in L2 when a kernel starts
  double bypass_request = 84;  // bytes that each row of a copy costs in addition if it bypasses L2
  double same_address = 0.0136;  // slowdown of a copy by each other core that reads the same address at the same time
  double unaligned_gm = 1.43;  // maximum slowdown of a copy that touches more 512-byte sectors than necessary
  double copy_start = 21;      // minimum cycles until the next copy can start
  double core_hbm_bytes_per_cycle = 34;  // rate of one core if the data are not in L2
  double cube_macs_half = 4096, cube_macs_float = 1024, cube_macs_int8 = 8192;
  double l1_to_l0_bytes_per_cycle = 131, fixpipe_bytes_per_cycle = 64;
  double matmul_bytes_per_cycle = 95;      // from L2 into L1, with long rows
  double matmul_odd_bytes_per_cycle = 16;  // if rows do not start at multiples of 32 bytes
  double matmul_row = 3;       // minimum cycles of a row
  double matmul_start = 6540;  // the library's own start on a core
  double cube_start = 524;     // start of a kernel with vector and cube cores, for each of its blocks
  double launch_us = 2.0;
  double sync_all = 1500;      // cycles until all cores have reached SyncAll
  // GM to UB and back: cycles of one copy by one core, for each size in KiB
  static constexpr int COPY_POINTS = 12;
  double copy_kib[COPY_POINTS] = {0, 1, 2, 4, 8, 12, 16, 20, 24, 32, 64, 128};
  double copy_cycles[COPY_POINTS] = {215, 235, 255, 291, 321, 378, 404, 496, 534, 712, 1413, 2800};

  double macs(size_t bytes) const {  // multiply-adds of the cube per cycle, for elements of this size
    return bytes == 4 ? cube_macs_float : bytes == 2 ? cube_macs_half : cube_macs_int8;
  }
  double copy(double bytes) const {
    double kib = bytes / 1024;
    constexpr int last = COPY_POINTS - 1;
    int i = 1;
    while (i < last && copy_kib[i] < kib) i++;
    double slope = (copy_cycles[i] - copy_cycles[i - 1]) / (copy_kib[i] - copy_kib[i - 1]);
    return copy_cycles[i - 1] + slope * (kib - copy_kib[i - 1]);
  }
  double longCopyRate() const {  // bytes per cycle of the longest copies of one core
    constexpr int last = COPY_POINTS - 1;
    return 1024 * (copy_kib[last] - copy_kib[last - 1]) / (copy_cycles[last] - copy_cycles[last - 1]);
  }
};

Chip& chip();

}  // namespace simulator

// Reads "key=value" lines with the names above as keys; copy_kib and copy_cycles take comma-separated values. Returns 0 if all keys are known.
extern "C" int simulator_configure(const char* lines);
