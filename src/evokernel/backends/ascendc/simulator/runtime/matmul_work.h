// The private part of MatmulImpl, included in its class: operands, products, results and their cost.

void restart() { step = -1; }
void take(Side& side, Where from, bool transposed) {
  side.from = from;
  side.transposed = transposed;
  restart();
}

void begin(const char* what) {
  if (!ready) simulator::endRun("E-MM-REGIST", "%s is called before REGIST_MATMUL_OBJ or Init gave the object its tiling", what);
  if (left.from == NOWHERE || right.from == NOWHERE)
    simulator::endRun("E-MM-TENSOR", "%s: the kernel did not call SetTensor%s", what, left.from == NOWHERE ? "A" : "B");
  if (shape.isBias && bias == NOWHERE && !noBias) simulator::reportViolation("E-MM-BIAS", "%s: the tiling has a bias, but the kernel did not call SetBias", what);
  if (!shape.isBias && bias != NOWHERE)
    simulator::reportViolation("E-MM-BIAS", "%s: the kernel calls SetBias, but the tiling has no bias: call EnableBias on the host", what);
}
void hasTile(const char* what) const {
  if (step < 0) simulator::endRun("E-MM-TILE", "%s needs a preceding Iterate() that returned true", what);
}

// ---- operands

simulator::Layout operandLayout(const Side& side, CubeFormat format, int64_t rows, int64_t columns, int64_t strip) const {
  simulator::Layout at;
  at.transposed = side.transposed;
  at.fractal = format == CubeFormat::NZ;
  at.strip = strip;
  if (side.transposed) std::swap(rows, columns);  // as stored in memory
  at.stride = at.fractal ? simulator::roundUp(rows, 16) : columns;
  if (side.from == LOCAL && !at.fractal) at.stride = simulator::roundUp(columns, strip);
  at.single = side.from == SCALAR;
  return at;
}
simulator::Layout leftLayout() const {
  bool local = left.from == LOCAL;
  return operandLayout(left, A_TYPE::format, local ? m : wholeM, local ? k : wholeKa, 32 / int64_t(sizeof(SrcAT)));
}
simulator::Layout rightLayout() const {
  bool local = right.from == LOCAL;
  return operandLayout(right, B_TYPE::format, local ? k : wholeKb, local ? n : wholeN, 32 / int64_t(sizeof(SrcBT)));
}
simulator::Layout outputLayout() const {
  simulator::Layout to;
  to.fractal = C_TYPE::format == CubeFormat::NZ;
  to.stride = to.fractal ? simulator::roundUp(wholeM, 16) : wholeNc;
  return to;
}
simulator::Layout localLayout(int64_t rows, int64_t columns) const {
  simulator::Layout to;
  to.fractal = C_TYPE::format == CubeFormat::NZ;
  to.stride = to.fractal ? simulator::roundUp(rows, 16) : simulator::roundUp(columns, 32 / int64_t(sizeof(DstT)));
  return to;
}

template <typename T>
const T* readable(const Side& side, const GlobalTensor<T>& gm, const LocalTensor<T>& local, const T& scalar, uint64_t elements,
                  const char* what) const {
  if (side.from == SCALAR) return &scalar;
  if (side.from == GM) {
    gm.check(0, elements * sizeof(T), what);
    return gm.data();
  }
  simulator::source(simulator::S, local, elements * sizeof(T), what);  // the library orders its copy to the cube
  return local.data();
}

// ---- products

void work(int row, int column, int rows, int columns, bool onTop) {
  simulator::Layout leftAt = leftLayout(), rightAt = rightLayout();
  uint64_t leftElements = uint64_t(leftAt.elements(row + rows, k)), rightElements = uint64_t(rightAt.elements(k, column + columns));
  const SrcAT* a = readable(left, leftGm, leftLocal, leftScalar, leftElements, "Matmul reads A");
  const SrcBT* b = readable(right, rightGm, rightLocal, rightScalar, rightElements, "Matmul reads B");
  if (simulator::isDry()) return addBias(column, rows, columns, 0);
  int64_t wide = simulator::packedColumns(columns);
  size_t needed = size_t(simulator::packedRows(rows) * wide);
  if (!onTop || sums.size() != needed) {
    sums.assign(needed, Sum(0));
    addBias(column, rows, columns, wide);
  }
  // parts of the result that fit into the caches of the host CPU
  constexpr int PART_ROWS = 512, PART_COLUMNS = 1024;
  std::vector<Sum> part;
  for (int i = 0; i < rows; i += PART_ROWS)
    for (int j = 0; j < columns; j += PART_COLUMNS) {
      int height = std::min(PART_ROWS, rows - i), width = std::min(PART_COLUMNS, columns - j);
      int64_t packed = simulator::packedColumns(width);
      part.assign(size_t(simulator::packedRows(height) * packed), Sum(0));
      simulator::product(a, shifted(leftAt, row + i, 0), b, shifted(rightAt, 0, column + j), part.data(), height, width, k);
      for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) sums[size_t((i + y) * wide + j + x)] += part[size_t(y * packed + x)];
    }
}

struct Shifted {  // a layout with a shifted origin
  simulator::Layout layout;
  int64_t row, column;
  int64_t at(int64_t y, int64_t x) const { return layout.at(row + y, column + x); }
  simulator::Stretch along(int64_t y, int64_t x) const { return layout.along(row + y, column + x); }
};
static Shifted shifted(const simulator::Layout& layout, int64_t row, int64_t column) { return {layout, row, column}; }

void addBias(int column, int rows, int columns, int64_t wide) {
  if (bias == NOWHERE) return;
  if (bias == GM) biasGm.check(int64_t(column) * int64_t(sizeof(BiasT)), uint64_t(columns) * sizeof(BiasT), "Matmul reads the bias");
  if (bias == LOCAL) simulator::source(simulator::S, biasLocal[column], uint64_t(columns) * sizeof(BiasT), "Matmul reads the bias", sizeof(BiasT));
  if (simulator::isDry()) return;
  const BiasT* values = bias == GM ? biasGm.data() : biasLocal.data();
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) sums[size_t(i * wide + j)] = Sum(values[column + j]);
}

// ---- results

simulator::Scale scaleAt(int column) const {
  return simulator::Scale::ofOutput(quant == SCALAR ? quantBits : quant == GM ? quantGm.data()[column] : quantLocal.data()[column]);
}
// The columns of a result must have scales if it is not stored with the type of its sums.
void checkScales(int columns, const char* what) const {
  constexpr bool isByte = sizeof(DstT) == 1;
  if (quant == NOWHERE && (isByte || (std::is_same<Sum, int32_t>::value && sizeof(DstT) == 2)))
    simulator::reportViolation("E-CUBE-QUANT", "%s: the product of %s is stored as %s without a scale: call SetQuantScalar or SetQuantVector", what,
                               simulator::typeName<SrcAT>(), simulator::typeName<DstT>());
  int first = step >= 0 ? tile.col : 0;
  if (quant == GM) quantGm.check(int64_t(first) * 8, uint64_t(columns) * 8, "Matmul reads the scales");
  if (quant == LOCAL) simulator::source(simulator::S, quantLocal[uint32_t(first)], uint64_t(columns) * 8, "Matmul reads the scales", 8);
}
DstT result(int row, int column, int firstColumn, int64_t wide) const {
  Sum sum = sums[size_t(row * wide + column)];
  if (quant == NOWHERE) return DstT(sum);
  return scaleAt(firstColumn + column).template convert<DstT>(sum);
}
static DstT combined(DstT was, DstT is, uint8_t atomic) {
  if (atomic == 1) return DstT(was + is);
  if (atomic == 2) return was > is ? was : is;
  if (atomic == 3) return was < is ? was : is;
  return is;
}
uint8_t atomicMode(uint8_t asked) const {
  if (asked) return asked;
  return simulator::core->atomic == simulator::Atomic::NONE ? 0 : uint8_t(simulator::core->atomic);
}
void storeGm(const GlobalTensor<DstT>& gm, const simulator::Layout& to, int row, int column, int rows, int columns, uint8_t enAtomic,
             const char* what) {
  gm.writes(what);
  checkScales(columns, what);
  gm.check(0, uint64_t(to.elements(row + rows, column + columns)) * sizeof(DstT), what);
  uint8_t atomic = atomicMode(enAtomic);
  if (!recordsOutput(gm, to, row, column, rows, columns, atomic)) return;
  if (!atomic && !to.fractal) {
    int64_t wide = simulator::packedColumns(columns);
    int firstColumn = step >= 0 ? tile.col : 0;
    std::vector<DstT> line(size_t(columns), DstT(0));
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < columns; j++) line[size_t(j)] = result(i, j, firstColumn, wide);
      gm.receives(to.at(row + i, column) * int64_t(sizeof(DstT)), line.data(), uint64_t(columns) * sizeof(DstT), what);
      std::copy(line.begin(), line.end(), gm.data() + to.at(row + i, column));
    }
    return;
  }
  put(gm.data(), to, row, column, rows, columns, atomic);
}
// Whether the data must be stored.
bool recordsOutput(const GlobalTensor<DstT>& gm, const simulator::Layout& to, int row, int column, int rows, int columns, bool adds) const {
  if (!gm.region->written) return true;
  int width = to.fractal ? 1 : columns;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j += width) gm.stores(to.at(row + i, column + j) * int64_t(sizeof(DstT)), uint64_t(width) * sizeof(DstT), adds);
  return !simulator::isDry();
}
void storeLocal(const LocalTensor<DstT>& local, const simulator::Layout& to, int rows, int columns, uint8_t enAtomic, const char* what) {
  checkScales(columns, what);
  simulator::core->move(simulator::MTE2, double(rows) * columns * sizeof(DstT));  // through global memory
  simulator::target(simulator::S, local, uint64_t(to.elements(rows, columns)) * sizeof(DstT), what);
  if (simulator::isDry()) return;
  put(local.data(), to, 0, 0, rows, columns, enAtomic);
}
void put(DstT* into, const simulator::Layout& to, int row, int column, int rows, int columns, uint8_t atomic) {
  int64_t wide = simulator::packedColumns(columns);
  int firstColumn = step >= 0 ? tile.col : 0;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      DstT& place = into[to.at(row + i, column + j)];
      place = combined(place, result(i, j, firstColumn, wide), atomic);
    }
}

// ---- cost

// If both vector cores of a block use its cube, the launch adds the time of the other one. A cube core has the bandwidth
// share of two vector cores, and in a kernel without vector cores a share of its own.
void charge(int rows, int columns, bool wait) {
  const simulator::Chip& chip = simulator::chip();
  simulator::Core& core = *simulator::core;
  double share = core.isCube ? 1 : 2;
  simulator::Memory memory{share * simulator::run.l2Rate, share * simulator::run.hbmRate, !simulator::run.fits || chip.cold_l2 > 0, simulator::run.fits};
  simulator::ProductCost cost = simulator::productCost(describe(rows, columns), memory);
  core.scalar(chip.issue);
  double start = std::max(core.time[simulator::M], core.time[simulator::S]);
  done = start + cost.total;
  core.time[simulator::M] = done;
  if (__builtin_expect(simulator::isRecording, 0)) {
    simulator::Product aligned = describe(rows, columns);
    aligned.left.aligned = aligned.right.aligned = true;
    simulator::recordProduct(cost, simulator::productCost(aligned, memory).into1, doneSlot);
  }
  core.counts.macs += uint64_t(double(rows) * columns * k);
  core.counts.bytesIn += uint64_t(cost.bytesIn);
  core.counts.bytesOut += uint64_t(cost.bytesOut);
  core.counts.cube += done - start;
  core.counts.busy[simulator::M] += cost.mac;
  core.counts.busy[simulator::MTE1] += cost.into0;
  core.counts.busy[simulator::MTE2] += cost.into1;
  core.counts.busy[simulator::FIX] += cost.leaving;
  if (!core.isCube) {
    core.counts.cubeBusy[simulator::M] += cost.mac;
    core.counts.cubeBusy[simulator::MTE1] += cost.into0;
    core.counts.cubeBusy[simulator::MTE2] += cost.into1;
    core.counts.cubeBusy[simulator::FIX] += cost.leaving;
  }
  if (wait) waitFor();
}
simulator::Product describe(int rows, int columns) const {
  simulator::Product p;
  constexpr bool bulk = MM_CFG.doMultiDataLoad;
  p.rows = rows, p.columns = columns, p.depth = k;
  p.ownRows = m, p.ownColumns = n;
  p.baseM = shape.baseM, p.baseN = shape.baseN, p.baseK = shape.baseK > 0 ? shape.baseK : k;
  p.stepKa = bulk ? std::max(1, int(shape.stepKa)) : 1;
  p.stepKb = bulk ? std::max(1, int(shape.stepKb)) : 1;
  p.isSingle = !bulk && shape.depthA1 == 1 && shape.depthB1 == 1;
  p.outBytes = sizeof(DstT);
  p.macs = simulator::chip().macs(sizeof(SrcAT));
  p.left = factor(left, A_TYPE::format, sizeof(SrcAT), left.transposed ? std::min<double>(p.baseM, rows) : std::min(p.baseK * p.stepKa, p.depth),
                  left.transposed ? wholeM : wholeKa, double(wholeN) / n);
  p.right = factor(right, B_TYPE::format, sizeof(SrcBT), right.transposed ? std::min(p.baseK * p.stepKb, p.depth) : std::min<double>(p.baseN, columns),
                   right.transposed ? wholeKb : wholeN, double(wholeM) / m);
  return p;
}
static simulator::Factor factor(const Side& side, CubeFormat format, size_t bytes, double row, int64_t pitch, double sharers) {
  simulator::Factor made;
  made.bytes = double(bytes);
  made.row = side.from == GM && format != CubeFormat::NZ ? row : 0;
  made.aligned = pitch * int64_t(bytes) % 32 == 0;
  made.sharers = std::min(std::max(1.0, std::round(sharers)), double(simulator::run.blockCount));
  return made;
}
void waitFor() {
  if (!simulator::core) return;
  simulator::core->time[simulator::S] = std::max(simulator::core->time[simulator::S], done);
  if (__builtin_expect(simulator::isRecording && doneSlot, 0)) simulator::recordResult(doneSlot);
}
