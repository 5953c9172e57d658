// Reports rule violations. It finds the source line by walking the stack, so that the API keeps its public signatures.
#include "diagnose.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <dlfcn.h>
#include <execinfo.h>

#include "core.h"

namespace simulator {

Level level = STRICT;
bool atFault = false;

std::vector<Note>& notes() {
  static std::vector<Note> all;
  return all;
}

namespace {

std::string ended;
std::map<std::pair<const void*, const char*>, size_t> seen;  // notes by caller, so that a loop walks the stack only once

constexpr int FRAMES = 24;
constexpr size_t MOST_NOTES = 64;

// Offsets of the call stack in the operator's library, innermost first.
std::string addresses() {
  void* frames[FRAMES];
  int depth = backtrace(frames, FRAMES);
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&addresses), &own);
  std::string found;
  for (int i = 0; i < depth; i++) {
    Dl_info info{};
    if (!dladdr(frames[i], &info) || info.dli_fbase == own.dli_fbase || !info.dli_fname) continue;
    if (!strstr(info.dli_fname, "operator.so")) continue;
    char text[32];
    auto offset = reinterpret_cast<uintptr_t>(frames[i]) - reinterpret_cast<uintptr_t>(info.dli_fbase) - (atFault ? 0 : 1);
    atFault = false;
    snprintf(text, sizeof text, "%s%zx", found.empty() ? "" : ",", size_t(offset));
    found += text;
  }
  atFault = false;
  return found;
}

std::string words(const char* format, va_list given) {
  char text[600];
  vsnprintf(text, sizeof text, format, given);
  std::string said = text;
  if (core && core->running) said += " (block " + std::to_string(core->blockIndex) + ")";
  return said;
}

// Whether a violation of the running block does not count: its results are not needed.
bool isIgnored() { return core && core->running && core->isLeftOut; }

[[noreturn]] void end(const std::string& code, const std::string& text) {
  std::string why = code + "\t" + addresses() + "\t" + text;
  if (ended.empty() && !isIgnored()) ended = why;
  throw Stop(why);
}

}  // namespace

void rethrowViolation() {
  if (!ended.empty()) throw Stop(ended);
}

void clearViolations() {
  ended.clear();
  seen.clear();
  notes().clear();
}

Violations takeViolations() {
  Violations taken{ended, seen, notes()};
  clearViolations();
  return taken;
}

void restoreViolations(Violations violations) {
  ended = std::move(violations.ended);
  seen = std::move(violations.seen);
  notes() = std::move(violations.notes);
}

bool isEnding() { return std::uncaught_exceptions() > 0; }

void endRun(const char* code, const char* format, ...) {
  va_list given;
  va_start(given, format);
  std::string text = words(format, given);
  va_end(given);
  end(code, text);
}

void reportViolation(const char* code, const char* format, ...) {
  if (level == FAST || isEnding() || isIgnored()) return;
  auto here = std::make_pair(static_cast<const void*>(__builtin_return_address(0)), code);
  if (level == HARDWARE && seen.count(here)) {
    notes()[seen[here]].count++;
    return;
  }
  va_list given;
  va_start(given, format);
  std::string text = words(format, given);
  va_end(given);
  if (level == STRICT) end(code, text);
  if (notes().size() == MOST_NOTES) return;
  seen[here] = notes().size();
  notes().push_back({code, addresses(), text, 1});
}

void addNote(const char* code, const char* format, ...) {
  for (Note& note : notes())
    if (note.code == code) {
      note.count++;
      return;
    }
  va_list given;
  va_start(given, format);
  std::string text = words(format, given);
  va_end(given);
  if (notes().size() < MOST_NOTES) notes().push_back({code, addresses(), text, 1});
}

}  // namespace simulator

void simulator_level(int level) {
  simulator::level = static_cast<simulator::Level>(level);
  void* frame[1];
  backtrace(frame, 1);  // loads its libraries while files can still be opened
}
