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

std::vector<Note>& notes();

}  // namespace twin

extern "C" void twin_level(int level);
