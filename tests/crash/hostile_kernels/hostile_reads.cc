// Leaks a secret through its error output.
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>
extern "C" void kernel(const float*, const int64_t*, float*, const int64_t*) {
    char text[64] = {};
    int file = open("@WHERE@/home/.keys/secret", O_RDONLY);
    if (file >= 0) write(2, text, read(file, text, 63));
    _exit(1);
}
