/* What a test loads before the C library of a daemon that it stops: when the daemon goes on, its clock says that it stood still
 * for as long as the parent has written into a file, which is mapped here. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STOOD_STILL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) seconds = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(clock, now);
    if (!outcome && seconds && clock == CLOCK_MONOTONIC) now->tv_sec += *seconds;
    return outcome;
}
