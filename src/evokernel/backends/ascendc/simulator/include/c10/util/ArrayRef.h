// Part of twin_types.h here.
#pragma once
#include "c10/twin_types.h"
