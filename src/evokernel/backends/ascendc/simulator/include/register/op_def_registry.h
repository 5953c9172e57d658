// The header with which host code defines an operator.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>

#include "graph/utils/type_utils.h"
#include "register/op_def.h"
#include "register/op_impl_registry.h"
#include "register/tilingdata_base.h"
