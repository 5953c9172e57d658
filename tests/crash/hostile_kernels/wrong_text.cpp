extern "C" void kernel(this is no C++
