// Starts a daemon while it is loaded.
#include <cstdint>
#include <cstdlib>
#include <unistd.h>
__attribute__((constructor)) static void first() {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            alarm(20);
            for (int i = 0; i < 64; ++i) close(i);
            sleep(20);
        }
        _exit(0);
    }
}
extern "C" void kernel(const float*, const int64_t*, float*, const int64_t*) {}
