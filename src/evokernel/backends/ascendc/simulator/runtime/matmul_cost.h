// The cycles of a product through the library's Matmul on one cube core. The baseline has the same formulas: ../../product_cost.py.
#pragma once
#include <algorithm>
#include <cmath>

#include "chip.h"

namespace simulator {

struct Factor {       // one of the two matrices of a product, as it is in global memory
  double bytes = 2;   // of an element
  double row = 0;     // elements that are contiguous in each row of a copy; 0 if the copy has no rows
  bool aligned = true;  // rows start at multiples of 32 bytes
  double sharers = 1;   // cores that read the same elements at about the same time
};
struct Product {  // the part that one core computes with one request
  double rows = 0, columns = 0, depth = 0;
  double ownRows = 0, ownColumns = 0;  // of all requests of the core, which read each element of a factor several times
  double baseM = 128, baseN = 128, baseK = 64;
  double stepKa = 1, stepKb = 1;  // base blocks that a copy fetches along the depth
  bool isSingle = false;          // L1 has room for only one base block of each factor
  double outBytes = 2;
  double macs = 4096;             // per cycle
  Factor left, right;
};
struct Memory {  // bytes per cycle for one cube core while all cores move data
  double l2 = 1e9, hbm = 1e9;
  bool misses = false;  // the factors are not in L2 when the kernel starts
  bool keeps = true;    // L2 keeps the result
};
struct ProductCost {
  double mac = 0, into1 = 0, into0 = 0, leaving = 0, total = 0;  // into L1 and L0
  double bytesIn = 0, bytesOut = 0;
};

inline double pieces(double extent, double size) { return std::ceil(extent / std::max(1.0, size)); }

// Copies convert rows to the format of the cube: short rows take a minimum of cycles, rows at odd addresses are slow.
inline double rowRate(const Factor& factor) {
  const Chip& c = chip();
  if (factor.row <= 0) return c.matmul_bytes_per_cycle;
  if (!factor.aligned) return c.matmul_odd_bytes_per_cycle;
  double bytes = factor.row * factor.bytes;
  return bytes / std::max(c.matmul_row, bytes / c.matmul_bytes_per_cycle);
}

// The cycles of the copies of one factor; `passes` of the request and of all requests of the core.
inline double factorCycles(const Factor& factor, double bytes, double ownPasses, const Memory& memory, double copyBytes, double& missing) {
  double l2 = std::min(rowRate(factor), memory.l2), hbm = std::min(l2, memory.hbm);
  double outside = memory.misses ? bytes / (ownPasses * factor.sharers) : 0;
  missing += outside / copyBytes;
  return outside / hbm + (bytes - outside) / l2;
}

// The longest of the multiplications, the copies into L1 and the copies into L0, after the latency of the first copy; then the output.
inline ProductCost productCost(const Product& p, const Memory& memory) {
  const Chip& c = chip();
  ProductCost cost;
  double tilesM = pieces(p.rows, p.baseM), tilesN = pieces(p.columns, p.baseN), latency = c.copy(0);
  double strip = p.left.bytes == 1 ? 32 : 16;  // of the depth: 32 bytes, or two of them for float
  cost.mac = 256 * strip * pieces(p.rows, 16) * pieces(p.columns, 16) * pieces(p.depth, strip) / p.macs;
  double leftBytes = p.left.bytes * p.rows * p.depth * tilesN, rightBytes = p.right.bytes * p.columns * p.depth * tilesM;
  double leftTile = p.left.bytes * p.baseM * p.baseK, rightTile = p.right.bytes * p.baseN * p.baseK, missing = 0;
  cost.into1 = factorCycles(p.left, leftBytes, pieces(p.ownColumns, p.baseN), memory, leftTile * p.stepKa, missing) +
               factorCycles(p.right, rightBytes, pieces(p.ownRows, p.baseM), memory, rightTile * p.stepKb, missing);
  cost.into0 = (leftBytes + rightBytes) / c.l1_to_l0_bytes_per_cycle;
  // The latency of a copy is hidden only if another copy has room in L1 and the data are in L2.
  if (p.isSingle) cost.into1 += tilesM * tilesN * pieces(p.depth, p.baseK) * latency + cost.into0;
  else cost.into1 += missing * latency;
  cost.bytesIn = leftBytes + rightBytes;
  cost.bytesOut = p.rows * p.columns * p.outBytes;
  cost.leaving = cost.bytesOut / std::min(c.fixpipe_bytes_per_cycle, memory.keeps ? memory.l2 : memory.hbm);
  cost.total = latency + std::max({cost.mac, cost.into1, cost.into0}) + cost.leaving;
  return cost;
}

}  // namespace simulator
