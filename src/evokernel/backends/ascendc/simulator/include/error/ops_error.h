// The simulator declares this in ops_log.h.
#pragma once
#include "log/ops_log.h"
