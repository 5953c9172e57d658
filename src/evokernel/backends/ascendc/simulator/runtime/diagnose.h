// Broken rules: how they are told, and what happens then.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

namespace twin {

enum Level { FAST, HARDWARE, STRICT };

// A run that ends here: "CODE\taddresses\tmessage".
struct Stop : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Note {
  std::string code, addresses, text;
  long count = 1;
};

extern Level level;

// Ends the run, whatever the level: nothing sensible can follow.
[[noreturn]] void stop(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// strict: ends the run; hardware: is noted, once per code and place, and the run goes on as silicon would; fast: nothing.
void broken(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// Breaks no rule, but is worth knowing: noted once per code, whatever the level.
void remark(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3), cold, noinline));

// A signal has stopped the code: its place is where it stopped, not where it would return to.
extern bool atFault;

std::vector<Note>& notes();

// What ended the run, whoever caught it since: code that swallows the exception does not get away with it.
// Throws it again.
void remember();
// Before a call: nothing is noted, and nothing has ended.
void startAnew();

}  // namespace twin

extern "C" void twin_level(int level);
