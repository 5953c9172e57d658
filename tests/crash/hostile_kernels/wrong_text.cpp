extern "C" void kernel(this is not C++
