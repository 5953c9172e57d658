// Ascend C, kernel side, on the twin.
#pragma once
#include "../runtime/copy.h"
#include "../runtime/queues.h"
#include "../runtime/sync.h"
#include "../runtime/system.h"
#include "../runtime/tensors.h"
#include "../runtime/types.h"
#include "../runtime/vector.h"
#include "../runtime/convert.h"
#include "../runtime/fill.h"
#include "../runtime/fused.h"
#include "../runtime/reduce.h"
