/* What the chaos test loads before the C library of the daemon: a clock on the wall that is set, and a disk that fails.
 *
 * The parent writes what is so now into a file, which is mapped here; see weather.rs for its layout. Only the process that
 * was started with the library has it: what that process starts does not. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_ms; /* by which the clock on the wall is ahead */
    volatile int64_t failure;  /* errno of the disk; 0: it works */
    volatile int64_t every;    /* each how many-th operation fails */
    int64_t failed;            /* operations that have failed so far */
    int64_t loaded;            /* processes that have this library */
};

static struct control *control;
static char folder[4096];
static int64_t operations;

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CAPATAZ_CHAOS_CONTROL"), *data = getenv("CAPATAZ_CHAOS_DATA");
    unsetenv("LD_PRELOAD");
    if (!path || !data || strlen(data) >= sizeof folder) return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    strcpy(folder, data);
    control = mapped;
    __atomic_fetch_add(&control->loaded, 1, __ATOMIC_RELAXED);
}

/* Whether an operation on this file fails now. */
static int fails(int file) {
    if (!control || !control->failure) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    size_t prefix = strlen(folder);
    if (length < (ssize_t)prefix || memcmp(path, folder, prefix)) return 0;
    int64_t every = control->every > 0 ? control->every : 1;
    if (__atomic_fetch_add(&operations, 1, __ATOMIC_RELAXED) % every) return 0;
    int64_t failure = control->failure;
    if (!failure) return 0;
    __atomic_fetch_add(&control->failed, 1, __ATOMIC_RELAXED);
    errno = (int)failure;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t length) {
    return fails(file) ? -1 : REAL(write)(file, bytes, length);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    return fails(file) ? -1 : REAL(pwrite)(file, bytes, length, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    return fails(file) ? -1 : REAL(pwrite64)(file, bytes, length, at);
}

int fsync(int file) {
    return fails(file) ? -1 : REAL(fsync)(file);
}

int fdatasync(int file) {
    return fails(file) ? -1 : REAL(fdatasync)(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int outcome = REAL(clock_gettime)(clock, now);
    if (!outcome && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ahead = control->clock_ms;
        now->tv_sec += ahead / 1000;
        now->tv_nsec += ahead % 1000 * 1000000;
        if (now->tv_nsec < 0) now->tv_sec -= 1, now->tv_nsec += 1000000000;
        if (now->tv_nsec >= 1000000000) now->tv_sec += 1, now->tv_nsec -= 1000000000;
    }
    return outcome;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return (time_t)-1;
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
