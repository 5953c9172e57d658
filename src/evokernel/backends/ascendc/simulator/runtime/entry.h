// Every candidate is compiled with this header, so it includes no others.
#pragma once

namespace simulator {

// The kernel that the operator's library registers.
struct Entry {
  void (*call)(void** arguments);
  int parameters;
  bool isMix;      // each block has a cube core and two vector cores
  bool onCube;     // the kernel has code for the cube core
  bool meets;      // blocks wait for each other, so all must be active at once
  char *variables, *variablesEnd;  // its __gm__ variables at file scope
};
Entry& entry();

}  // namespace simulator
