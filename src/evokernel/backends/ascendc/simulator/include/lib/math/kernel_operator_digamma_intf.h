// The header with which kernels include digamma.
#pragma once
#include "kernel_operator.h"
