// By itself and without other headers: every candidate is compiled with it.
#pragma once

namespace twin {

// What the operator's library says about its kernel.
struct Entry {
  void (*call)(void** arguments);
  int parameters;
  bool isMix;      // each block has a cube core and two vector cores
  bool onCube;     // there is code for the cube core itself
  bool meets;      // blocks wait for each other: all are alive at once
};
Entry& entry();

}  // namespace twin
