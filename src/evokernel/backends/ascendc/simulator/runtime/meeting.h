// Synchronization of cores.
#pragma once
#include <cstdint>
#include <functional>

namespace simulator {

void startMeetings(int64_t vectorBlocks, int64_t cubeBlocks);

// Ends the run with an error if the blocks run in sequence.
void mustRunTogether();

// Before a block continues: it runs dry from its last meeting on if it is not among those chosen.
void enterPhase();

// Lets the other blocks run until this one can continue.
void pauseUntil(std::function<bool()> ready);

}  // namespace simulator
