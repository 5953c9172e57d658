// Cores that wait for each other.
#pragma once
#include <cstdint>
#include <functional>

namespace twin {

void startMeetings(int64_t vectorBlocks, int64_t cubeBlocks);

// Stops where blocks run one after the other.
void mustRunTogether();

// Lets the other blocks run until this one can go on.
void pauseUntil(std::function<bool()> ready);

}  // namespace twin
