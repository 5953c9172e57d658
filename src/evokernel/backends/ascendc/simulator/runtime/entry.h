// Every candidate is compiled with this header, so it includes no others.
#pragma once

namespace simulator {

// The kernel that the operator's library registers.
struct Entry {
  void (*call)(void** arguments);  // nullptr if the kernel runs on cube cores only
  int parameters;
  bool isMix;      // each block has a cube core and two vector cores
  bool onCube;     // the kernel has code for the cube core
  bool meets;      // blocks wait for each other, so all must be active at once
  char *variables, *variablesEnd;  // its __gm__ variables at file scope
  void (*callOnCube)(void** arguments) = nullptr;  // the kernel compiled for the cube core, if that is another function
};
Entry& entry();

}  // namespace simulator
