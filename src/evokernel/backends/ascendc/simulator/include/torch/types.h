// The simulator declares this in extension.h.
#pragma once
#include "torch/extension.h"
