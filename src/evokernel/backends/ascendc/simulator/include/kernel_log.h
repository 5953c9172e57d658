// Part of the API that some kernels include by its own name; the twin has it with the rest.
#pragma once
#include "kernel_operator.h"
