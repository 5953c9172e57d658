// The same names as type_utils.h has.
#pragma once
#include "graph/utils/type_utils.h"
