// Alternative path of the Matmul header.
#pragma once
#include "lib/matmul_intf.h"
