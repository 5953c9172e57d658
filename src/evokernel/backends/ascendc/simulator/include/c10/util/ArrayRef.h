// The simulator declares this in simulator_types.h.
#pragma once
#include "c10/simulator_types.h"
