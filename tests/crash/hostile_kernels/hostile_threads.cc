// Starts threads that compute after the call has returned.
#include <cstdint>
#include <pthread.h>
#include <ctime>
static void* burn(void*) {
    time_t end = time(nullptr) + 20;
    while (time(nullptr) < end) {}
    return nullptr;
}
extern "C" void kernel(const float*, const int64_t*, float*, const int64_t*) {
    pthread_t thread;
    for (int i = 0; i < 8; ++i) pthread_create(&thread, nullptr, burn, nullptr);
}
