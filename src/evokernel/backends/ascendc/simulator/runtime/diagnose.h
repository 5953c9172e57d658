// Reports violations of hardware rules, and ends or continues the run.
#pragma once
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace simulator {

enum Level { FAST, HARDWARE, STRICT };

// Ends a run: "CODE\taddresses\tmessage".
struct Stop : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Note {
  std::string code, addresses, text;
  long count = 1;
};

extern Level level;

// Ends the run at every level, because it cannot continue meaningfully.
[[noreturn]] void endRun(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// strict: ends the run; hardware: notes the violation once per code and place and continues as the hardware would; fast: does nothing.
void reportViolation(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// Whether a violation is ending the run: destructors of the kernel are executed, and their own violations follow from the first.
bool isEnding();

// Violates no rule, but is useful to know: noted once per code at every level.
void addNote(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// A signal stopped the code: the reported place is the instruction that stopped, not a return address.
extern bool atFault;

std::vector<Note>& notes();

// Remembers the violation that ended the run, so that a candidate cannot hide it by catching the exception.
// Throws it again.
void rethrowViolation();
// Clears notes and violations before a call.
void clearViolations();
// Takes them away for an execution that does not count, and brings them back.
struct Violations {
  std::string ended;
  std::map<std::pair<const void*, const char*>, size_t> seen;
  std::vector<Note> notes;
};
Violations takeViolations();
void restoreViolations(Violations violations);

}  // namespace simulator

extern "C" void simulator_level(int level);
