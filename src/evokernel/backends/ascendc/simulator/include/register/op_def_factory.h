// The simulator declares this in op_def.h.
#pragma once
#include "register/op_def.h"
