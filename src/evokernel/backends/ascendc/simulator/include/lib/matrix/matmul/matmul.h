// Matmul, by its longer name.
#pragma once
#include "lib/matmul_intf.h"
