// The same names as in type_utils.h.
#pragma once
#include "graph/utils/type_utils.h"
