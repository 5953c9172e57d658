// The header with which kernels include fmod.
#pragma once
#include "kernel_operator.h"
