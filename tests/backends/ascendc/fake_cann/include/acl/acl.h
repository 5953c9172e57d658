// The runtime's header of the fake toolkit.
#pragma once
#include "../../native/acl.h"

enum { ACL_MEM_MALLOC_HUGE_FIRST = 0, ACL_MEMCPY_HOST_TO_DEVICE = 1, ACL_MEMCPY_DEVICE_TO_HOST = 2 };
