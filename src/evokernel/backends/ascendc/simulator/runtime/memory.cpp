// The kernel's arguments, and the handling of invalid memory accesses.
#include "memory.h"

#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "core.h"
#include "parts.h"

namespace simulator {

namespace {

constexpr uintptr_t GUARD = 1 << 20;

struct Shown {
  uintptr_t start, end, real;  // complete pages
  bool open;
  std::string name;
  uint64_t tiling = 0;  // bytes of tiling data
};
std::vector<Shown> shown;
bool isGuarded = false;

uintptr_t pageDown(uintptr_t address) { return address & ~(uintptr_t(sysconf(_SC_PAGESIZE)) - 1); }
uintptr_t pageUp(uintptr_t address) { return pageDown(address + uintptr_t(sysconf(_SC_PAGESIZE)) - 1); }

// Maps the same pages a second time, at the kernel's address. Only shared memory can be mapped twice.
bool open(Shown& one) {
  void* at = mremap(reinterpret_cast<void*>(one.real), 0, one.end - one.start, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(one.start));
  one.open = at != MAP_FAILED;
  return one.open;
}

// The scalar unit reads each line of the tiling once; later reads hit its cache. How many there are is not visible.
void readTiling(const Shown& one) {
  for (uint64_t at = 0; at < one.tiling; at += 64) core->scalarGm(one.start + at);
}

// Continues after an integer division by zero, with all bits of the quotient set and the dividend as the remainder. The scalar unit of the
// device does not stop at one either; what it computes is not documented. Returns false if the instruction is not a known division.
bool skipDivision(void* given) {
#if defined(__x86_64__)
  auto* registers = static_cast<ucontext_t*>(given)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const uint8_t* at = code;
  bool isWide = false, isShort = false;
  for (; *at == 0x66 || (*at & 0xf0) == 0x40; at++) {
    if (*at == 0x66) isShort = true;
    else isWide = *at & 8;
  }
  uint8_t form = at[1], mode = form >> 6, base = form & 7, operation = (form >> 3) & 7;
  if (*at != 0xf7 || operation < 6) return false;
  int64_t length = at + 2 - code;
  if (mode != 3) {  // the divisor is in memory
    if (base == 4) length += (mode == 0 && (at[2] & 7) == 5) ? 5 : 1;
    if (mode == 1) length += 1;
    if (mode == 2 || (mode == 0 && base == 5)) length += 4;
  }
  uint64_t bits = isWide ? ~uint64_t(0) : isShort ? 0xffff : 0xffffffff;
  uint64_t kept = isShort ? ~uint64_t(0xffff) : 0;  // a 32-bit result clears the upper half
  uint64_t dividend = uint64_t(registers[REG_RAX]);
  registers[REG_RDX] = greg_t((uint64_t(registers[REG_RDX]) & kept) | (dividend & bits));
  registers[REG_RAX] = greg_t((dividend & kept) | bits);
  registers[REG_RIP] += length;
  return true;
#else
  (void)given;
  return false;
#endif
}

void onFault(int number, siginfo_t* info, void* context) {
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  char where[64] = "";
  const Shown* written = nullptr;
  if (number == SIGSEGV) {
    auto own = core ? reinterpret_cast<uintptr_t>(core->seen) : 0;
    if (own && address >= own && address < own + LOCAL_BYTES && !core->isOpen && core->open()) {
      run.rawPointers = true;
      if (run.isDry) guess();
      return;
    }
    for (Shown& one : shown) {
      bool isRecorded = !choice().isWhole() && one.name != "tiling";
      if (address >= one.start && address < one.end && !one.open && isRecorded && isGuarded)
        endRun("E-PART-RAW", "a raw pointer reads or writes '%.40s', so it is not known which blocks write which elements", one.name.c_str());
      if (address >= one.start && address < one.end && !one.open && open(one)) {
        if (one.tiling) readTiling(one);
        else run.rawPointers = true;
        return;
      }
      if (address >= one.start && address < one.end && one.open) written = &one;  // only a write causes a fault there
      if (address + GUARD >= one.start && address < one.end + GUARD && !where[0])
        snprintf(where, sizeof where, "%s '%.40s'", address < one.start ? "before" : address < one.end ? "in" : "behind", one.name.c_str());
    }
  }
  if (!isGuarded) abort();
  atFault = true;
  if (number == SIGFPE && core && level != STRICT && skipDivision(context)) {
    reportViolation("E-DIVIDE", "an integer division by zero");
    atFault = false;
    return;
  }
  // The exception unwinds the kernel's frames from here: the kernel is compiled with -fnon-call-exceptions for this.
  if (written) endRun("E-GM-READONLY", "a raw pointer writes to the kernel's input '%.40s'", written->name.c_str());
  if (where[0]) endRun("E-GM-GUARD", "a raw pointer reads or writes %s", where);
  if (number == SIGFPE || number == SIGTRAP || number == SIGILL) endRun("E-DIVIDE", "an integer division by zero");
  endRun("E-CRASH", "the kernel reads or writes memory outside its own");
}

}  // namespace

void readTilingAgain() {
  for (const Shown& one : shown)
    if (one.tiling && one.open) readTiling(one);
}

void guarded(void (*body)(void*), void* with) {
  isGuarded = true;
  body(with);
}

void* Arguments::show(void* data, uint64_t bytes, const std::string& name, bool writable, bool tracked) {
  auto real = reinterpret_cast<uintptr_t>(data);
  uintptr_t start = pageDown(real), length = pageUp(real + std::max<uint64_t>(bytes, 1)) - start;
  void* reserved = mmap(nullptr, length + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw std::bad_alloc();
  uintptr_t seen = reinterpret_cast<uintptr_t>(reserved) + GUARD;
  shown.push_back({seen, seen + length, start, false, name, 0});
  names.push_back(name);
  uint16_t* owner = nullptr;
  if (tracked && writable && level != FAST && !run.isDry) {
    owners.emplace_back(bytes / 64 + 2);
    owner = owners.back().get();
  }
  run.regions.push_back({seen + (real - start), real, real + bytes, names.back().c_str(), writable, owner});
  bool records = writable && !choice().isWhole();
  run.regions.back().written = records ? tracked ? writtenAt(data, bytes) : ignored() : nullptr;
  run.regions.back().watched = run.isDry && (tracked || writable);
  return reinterpret_cast<void*>(seen + (real - start));
}

// A list of tensors in the format that kernels read: the offset of the pointers, then for each tensor the number of axes with its index in the list (the length
// of the list for the first) and its sizes, then the pointers. Kernels read it with raw pointers, which is not counted as raw access.
void* Arguments::showList(const Buffer& list) {
  std::vector<uint64_t> words{0}, addresses;
  for (const Buffer& part : list.parts) {
    uint64_t place = addresses.empty() ? list.parts.size() : addresses.size();
    words.push_back(part.shape.size() | place << 32);
    words.insert(words.end(), part.shape.begin(), part.shape.end());
    addresses.push_back(reinterpret_cast<uint64_t>(show(part.data, part.bytes, part.name, part.writable, true)));
  }
  words[0] = words.size() * sizeof(uint64_t);
  words.insert(words.end(), addresses.begin(), addresses.end());
  uint64_t bytes = words.size() * sizeof(uint64_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memcpy(memory, words.data(), bytes);
  held.emplace_back(memory, bytes);
  void* seen = show(memory, bytes, list.name, false, false);
  open(shown.back());
  return seen;
}

Arguments::Arguments(const Launch& wanted) {
  run.regions.clear();
  shown.clear();
  size_t count = wanted.arguments.size() + 2;
  for (const Buffer& buffer : wanted.arguments) count += buffer.parts.size();
  names.reserve(count);
  owners.reserve(count);
  for (const Buffer& buffer : wanted.arguments) {
    if (!buffer.parts.empty()) pointers.push_back(showList(buffer));
    else pointers.push_back(buffer.data ? show(buffer.data, buffer.bytes, buffer.name, buffer.writable, true) : nullptr);
  }
  workspaceBytes = std::max<uint64_t>(wanted.workspaceBytes, 1);  // an empty workspace also has an address
  tilingBytes = wanted.tiling.size() + 64;
  workspace = mmap(nullptr, workspaceBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  tiling = mmap(nullptr, tilingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (workspace == MAP_FAILED || tiling == MAP_FAILED) throw std::bad_alloc();
  if (choice().isWhole()) memset(workspace, 0xCD, wanted.workspaceBytes);
  memcpy(tiling, wanted.tiling.data(), wanted.tiling.size());
  void* seen = show(workspace, wanted.workspaceBytes, "workspace", true, false);
  run.workspaceBytes = wanted.workspaceBytes;
  run.workspace = static_cast<uint8_t*>(seen);
  pointers.push_back(seen);
  pointers.push_back(show(tiling, wanted.tiling.size(), "tiling", false, false));
  shown.back().tiling = wanted.tiling.size();
}

Arguments::~Arguments() {
  for (Shown& one : shown) munmap(reinterpret_cast<void*>(one.start - GUARD), one.end - one.start + 2 * GUARD);
  shown.clear();
  run.regions.clear();
  munmap(workspace, workspaceBytes);
  munmap(tiling, tilingBytes);
  for (const auto& one : held) munmap(one.first, one.second);
}

}  // namespace simulator

void simulator_open() {
  struct sigaction action {};
  action.sa_sigaction = simulator::onFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGILL}) sigaction(number, &action, nullptr);
}
