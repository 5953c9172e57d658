// Bindings include this without using it: the simulator computes no gradients.
#pragma once
#include "torch/extension.h"
