// Structures of the library; none is needed here.
#pragma once
