// Bindings include this header for the tensor classes; differentiation is not part of the simulator.
#pragma once
#include "torch/extension.h"
