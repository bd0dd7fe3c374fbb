/* Loaded before the C library into a program under test: it writes down what the program does to the files of one
 * folder, in order, and makes single calls fail. Nothing in the program knows of it.
 *
 *   CAPATAZ_DISK_ROOT    the folder; nothing outside of it is looked at
 *   CAPATAZ_DISK_RECORD  the file to which records are appended; src/record.rs reads it
 *   CAPATAZ_DISK_CALLS   if set, every call that could fail is recorded, with its number among those of its name
 *   CAPATAZ_DISK_FAULT   NUMBER:KIND:NAME, the call that fails, and how: eio, enospc, eintr, emfile, enomem, short
 *   CAPATAZ_DISK_DROP    a pattern of paths whose syncs are answered and not made: a disk that lies
 *
 * A record is its length (4 bytes), its kind (1 byte), and its fields: numbers have 8 bytes, texts their length before
 * them. All numbers begin with their lowest byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FD 65536
#define REAL(name) ((__typeof__(&name))real_of(&slot_##name, #name))
#define SLOT(name) static _Atomic(void *) slot_##name

SLOT(open); SLOT(openat); SLOT(close); SLOT(read); SLOT(pread); SLOT(write); SLOT(pwrite); SLOT(writev);
SLOT(ftruncate); SLOT(fsync); SLOT(fdatasync); SLOT(renameat); SLOT(linkat); SLOT(unlinkat); SLOT(mkdirat); SLOT(mmap);
SLOT(statx); SLOT(copy_file_range);

static char root[PATH_MAX];
static size_t root_length;
static const char *dropped;
static int record = -1;
static int records_calls;
static uint64_t fault_number;
static char fault_kind[16];
static char fault_name[32];
static _Atomic uint64_t tokens;
/* Held over a change and its record, so that the records are in the order of the changes. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
/* The file of each descriptor, and whether a failed sync of the file is still to be told there: Linux tells each
 * descriptor once. Both are guarded by `order`. */
static uint64_t file_of[MAX_FD];
static unsigned char owes_error[MAX_FD];

static void *real_of(_Atomic(void *) *slot, const char *name) {
    void *found = atomic_load(slot);
    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        atomic_store(slot, found);
    }
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("CAPATAZ_DISK_ROOT"), *path = getenv("CAPATAZ_DISK_RECORD");
    const char *fault = getenv("CAPATAZ_DISK_FAULT");
    if (!folder || !path || strlen(folder) >= sizeof root) return;
    int opened = REAL(open)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* Programs close the low descriptors, or give them to their children. */
    record = fcntl(opened, F_DUPFD_CLOEXEC, 700);
    REAL(close)(opened);
    records_calls = getenv("CAPATAZ_DISK_CALLS") != NULL;
    dropped = getenv("CAPATAZ_DISK_DROP");
    if (fault) sscanf(fault, "%lu:%15[^:]:%31[^:]", &fault_number, fault_kind, fault_name);
    strcpy(root, folder);
    root_length = strlen(root);
}

/* ---- Records ---- */

struct buffer { unsigned char *bytes; size_t length; };

static void add(struct buffer *to, const void *bytes, size_t length) {
    to->bytes = realloc(to->bytes, to->length + length);
    if (!to->bytes) abort();
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
}

static void add_number(struct buffer *to, uint64_t number) { add(to, &number, sizeof number); }

static void add_text(struct buffer *to, const void *text, size_t length) {
    add_number(to, length);
    add(to, text, length);
}

static struct buffer new_record(char kind) {
    struct buffer made = {0};
    add(&made, "\0\0\0\0", 4);
    add(&made, &kind, 1);
    return made;
}

/* A record is one write to a file that is open for appending, so that records of several programs do not mix. A record
 * that cannot be written would make every conclusion wrong. */
static void finish(struct buffer *made) {
    uint32_t length = (uint32_t)(made->length - 4);
    int before = errno;
    memcpy(made->bytes, &length, 4);
    if (REAL(write)(record, made->bytes, made->length) != (ssize_t)made->length) abort();
    free(made->bytes);
    errno = before;
}

static void record_path(char kind, const char *path) {
    struct buffer made = new_record(kind);
    add_text(&made, path, strlen(path));
    finish(&made);
}

static void record_paths(char kind, const char *from, const char *to) {
    struct buffer made = new_record(kind);
    add_text(&made, from, strlen(from));
    add_text(&made, to, strlen(to));
    finish(&made);
}

static void record_truncation(uint64_t file, uint64_t length) {
    struct buffer made = new_record('T');
    add_number(&made, file);
    add_number(&made, length);
    finish(&made);
}

static void record_write(uint64_t file, uint64_t offset, const void *bytes, size_t length) {
    struct buffer made = new_record('W');
    add_number(&made, file);
    add_number(&made, offset);
    add_text(&made, bytes, length);
    finish(&made);
}

static void record_call(char kind, uint64_t number, const char *call, const char *path) {
    struct buffer made = new_record(kind);
    add_number(&made, number);
    add_text(&made, call, strlen(call));
    add_text(&made, path, strlen(path));
    finish(&made);
}

/* ---- Paths ---- */

static int is_inside(const char *path) {
    return record >= 0 && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* The path of an open descriptor; false if it is not in the folder. */
static int path_of(int descriptor, char path[PATH_MAX]) {
    static const char gone[] = " (deleted)";
    char link[64];
    int before = errno;
    if (record < 0 || descriptor < 0 || descriptor == record) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = before;
    if (length <= 0) return 0;
    path[length] = 0;
    size_t suffix = sizeof gone - 1;
    if ((size_t)length > suffix && !strcmp(path + length - suffix, gone)) path[(size_t)length - suffix] = 0;
    return is_inside(path);
}

/* A path as it was given, made absolute; false if it is not in the folder. */
static int resolve(int folder, const char *given, char path[PATH_MAX]) {
    if (record < 0) return 0;
    if (given[0] == '/') return snprintf(path, PATH_MAX, "%s", given) < PATH_MAX && is_inside(path);
    char start[PATH_MAX];
    if (folder == AT_FDCWD) {
        if (!getcwd(start, sizeof start)) return 0;
    } else if (!path_of(folder, start)) {
        return 0;
    }
    return snprintf(path, PATH_MAX, "%s/%s", start, given) < PATH_MAX && is_inside(path);
}

static uint64_t file_at(int descriptor) {
    struct stat facts;
    return fstat(descriptor, &facts) ? 0 : facts.st_ino;
}

/* ---- Failing calls ---- */

enum { NOT = 0, SHORT = -1 };

static int fault_errno(void) {
    if (!strcmp(fault_kind, "short")) return SHORT;
    if (!strcmp(fault_kind, "enospc")) return ENOSPC;
    if (!strcmp(fault_kind, "eintr")) return EINTR;
    if (!strcmp(fault_kind, "emfile")) return EMFILE;
    if (!strcmp(fault_kind, "enomem")) return ENOMEM;
    return EIO;
}

static const char *const names[] = {"open", "create", "read", "stat", "map", "write", "truncate", "sync",
    "sync folder", "rename", "link", "remove", "make folder"};
#define NAMES (sizeof names / sizeof *names)
static _Atomic uint64_t calls[NAMES];

/* Counts the call, and tells how it is to fail. */
static int fails(const char *call, const char *path) {
    size_t name = 0;
    while (name < NAMES && strcmp(names[name], call)) name++;
    if (name == NAMES) abort();
    uint64_t number = atomic_fetch_add(&calls[name], 1) + 1;
    if (records_calls) record_call('C', number, call, path);
    if (number != fault_number || strcmp(call, fault_name)) return NOT;
    record_call('F', number, call, path);
    return fault_errno();
}

/* The same for a call that cannot be cut short; then it is to set errno. */
static int fails_whole(const char *call, const char *path) {
    int error = fails(call, path);
    if (error == NOT) return 0;
    errno = error == SHORT ? EIO : error;
    return 1;
}

/* ---- Opening and closing ---- */

static int opened_inside(int folder, const char *path, int flags, mode_t mode, const char *whole) {
    if (fails_whole(flags & O_CREAT ? "create" : "open", whole)) return -1;
    pthread_mutex_lock(&order);
    struct stat before;
    int was_there = !fstatat(folder, path, &before, 0);
    int descriptor = REAL(openat)(folder, path, flags, mode);
    struct stat facts;
    if (descriptor >= 0 && !fstat(descriptor, &facts) && S_ISREG(facts.st_mode)) {
        if (!was_there) {
            struct buffer made = new_record('O');
            add_number(&made, facts.st_ino);
            add_text(&made, whole, strlen(whole));
            finish(&made);
        } else if ((flags & O_TRUNC) && before.st_size > 0) {
            record_truncation(facts.st_ino, 0);
        }
        if (descriptor < MAX_FD) {
            file_of[descriptor] = facts.st_ino;
            owes_error[descriptor] = 0;
        }
    }
    pthread_mutex_unlock(&order);
    return descriptor;
}

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    /* A file without a name is as gone as one that was removed. */
    if ((flags & O_TMPFILE) == O_TMPFILE || !resolve(folder, path, whole)) {
        return REAL(openat)(folder, path, flags, mode);
    }
    return opened_inside(folder, path, flags, mode, whole);
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPENS(name)                                            \
    int name(const char *path, int flags, ...) {               \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = mode_of(flags, rest);                    \
        va_end(rest);                                          \
        return open_any(AT_FDCWD, path, flags, mode);          \
    }
#define OPENS_AT(name)                                         \
    int name(int folder, const char *path, int flags, ...) {   \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = mode_of(flags, rest);                    \
        va_end(rest);                                          \
        return open_any(folder, path, flags, mode);            \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int descriptor) {
    if (record >= 0 && descriptor >= 0 && descriptor < MAX_FD && file_of[descriptor]) {
        pthread_mutex_lock(&order);
        file_of[descriptor] = 0;
        owes_error[descriptor] = 0;
        pthread_mutex_unlock(&order);
    }
    return REAL(close)(descriptor);
}

/* ---- Reading ---- */

ssize_t read(int descriptor, void *bytes, size_t length) {
    char path[PATH_MAX];
    if (path_of(descriptor, path) && fails_whole("read", path)) return -1;
    return REAL(read)(descriptor, bytes, length);
}

ssize_t pread(int descriptor, void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    if (path_of(descriptor, path) && fails_whole("read", path)) return -1;
    return REAL(pread)(descriptor, bytes, length, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t length, off64_t offset) {
    return pread(descriptor, bytes, length, offset);
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts) {
    char whole[PATH_MAX];
    /* Rust asks with null whether there is such a call; the declaration says that nobody does. */
    const char *volatile given = path;
    if (given && given[0] && resolve(folder, given, whole) && fails_whole("stat", whole)) return -1;
    return REAL(statx)(folder, path, flags, mask, facts);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    char path[PATH_MAX];
    if (!(flags & MAP_ANONYMOUS) && path_of(descriptor, path)) {
        if (fails_whole("map", path)) return MAP_FAILED;
        size_t end = strlen(path);
        int is_index = end > 4 && !strcmp(path + end - 4, "-shm");
        /* What is written through a mapping is not seen; of the index nothing has to survive. */
        if ((flags & MAP_SHARED) && (protection & PROT_WRITE) && !is_index) record_path('X', path);
    }
    return REAL(mmap)(address, length, protection, flags, descriptor, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    return mmap(address, length, protection, flags, descriptor, offset);
}

/* ---- Writing ---- */

/* Writes at an offset, or where the descriptor stands if it is negative. */
static ssize_t write_any(int descriptor, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    if (!path_of(descriptor, path)) {
        return offset < 0 ? REAL(write)(descriptor, bytes, length) : REAL(pwrite)(descriptor, bytes, length, offset);
    }
    int error = fails("write", path);
    if (error > 0) {
        errno = error;
        return -1;
    }
    if (error == SHORT && length > 1) length /= 2;
    pthread_mutex_lock(&order);
    ssize_t written =
        offset < 0 ? REAL(write)(descriptor, bytes, length) : REAL(pwrite)(descriptor, bytes, length, offset);
    if (written > 0) {
        int before = errno;
        off_t at = offset < 0 ? lseek(descriptor, 0, SEEK_CUR) - written : offset;
        record_write(file_at(descriptor), (uint64_t)at, bytes, (size_t)written);
        errno = before;
    }
    pthread_mutex_unlock(&order);
    return written;
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
    return descriptor == record ? REAL(write)(descriptor, bytes, length) : write_any(descriptor, bytes, length, -1);
}
ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    return write_any(descriptor, bytes, length, offset);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t offset) {
    return write_any(descriptor, bytes, length, offset);
}
ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!path_of(descriptor, path)) return REAL(writev)(descriptor, parts, count);
    /* As many as the first of them are a short write, which every caller has to go on from. */
    for (int part = 0; part < count; part++) {
        if (parts[part].iov_len) return write_any(descriptor, parts[part].iov_base, parts[part].iov_len, -1);
    }
    return 0;
}

int ftruncate(int descriptor, off_t length) {
    char path[PATH_MAX];
    if (!path_of(descriptor, path)) return REAL(ftruncate)(descriptor, length);
    if (fails_whole("truncate", path)) return -1;
    pthread_mutex_lock(&order);
    int result = REAL(ftruncate)(descriptor, length);
    if (!result) record_truncation(file_at(descriptor), (uint64_t)length);
    pthread_mutex_unlock(&order);
    return result;
}
int ftruncate64(int descriptor, off64_t length) { return ftruncate(descriptor, length); }

/* Callers go on with reads and writes. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    char path[PATH_MAX];
    if (path_of(to, path)) {
        errno = ENOSYS;
        return -1;
    }
    return REAL(copy_file_range)(from, from_at, to, to_at, length, flags);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t length) {
    static _Atomic(void *) slot;
    char path[PATH_MAX];
    if (path_of(to, path)) {
        errno = ENOSYS;
        return -1;
    }
    return ((ssize_t(*)(int, int, off64_t *, size_t))real_of(&slot, "sendfile64"))(to, from, at, length);
}

/* ---- Syncing ---- */

enum { FAILED = 0, DONE = 1, INTERRUPTED = 2 };

static void record_end(uint64_t token, uint64_t how) {
    struct buffer made = new_record('E');
    add_number(&made, token);
    add_number(&made, how);
    finish(&made);
}

/* After a failed sync Linux takes what it could not write for written, and tells every descriptor of the file once. */
static int sync_any(int descriptor, int (*real)(int)) {
    char path[PATH_MAX];
    if (!path_of(descriptor, path)) return real(descriptor);
    struct stat facts;
    if (fstat(descriptor, &facts)) return -1;
    int error = fails(S_ISDIR(facts.st_mode) ? "sync folder" : "sync", path);
    if (error == SHORT) error = EIO;
    if (error == NOT && dropped && !fnmatch(dropped, path, 0)) return 0;
    uint64_t token = (uint64_t)getpid() << 32 | atomic_fetch_add(&tokens, 1);
    pthread_mutex_lock(&order);
    struct buffer made = new_record('B');
    add_number(&made, token);
    add_number(&made, facts.st_ino);
    add_number(&made, S_ISDIR(facts.st_mode));
    add_text(&made, path, strlen(path));
    finish(&made);
    int owes = descriptor < MAX_FD && owes_error[descriptor];
    if (owes) owes_error[descriptor] = 0;
    if (error > 0 && error != EINTR) {
        for (int other = 0; other < MAX_FD; other++) {
            if (other != descriptor && file_of[other] == facts.st_ino) owes_error[other] = 1;
        }
    }
    pthread_mutex_unlock(&order);
    int result = error > 0 ? -1 : real(descriptor);
    pthread_mutex_lock(&order);
    record_end(token, error == EINTR ? INTERRUPTED : result ? FAILED : DONE);
    pthread_mutex_unlock(&order);
    if (error > 0) errno = error;
    if (result || !owes) return result;
    errno = EIO;
    return -1;
}

int fsync(int descriptor) { return sync_any(descriptor, REAL(fsync)); }
int fdatasync(int descriptor) { return sync_any(descriptor, REAL(fdatasync)); }

/* ---- Names ---- */

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    char whole_from[PATH_MAX], whole_to[PATH_MAX];
    int source = resolve(from_folder, from, whole_from), target = resolve(to_folder, to, whole_to);
    if (!source && !target) return REAL(renameat)(from_folder, from, to_folder, to);
    if (fails_whole("rename", whole_to)) return -1;
    pthread_mutex_lock(&order);
    int result = REAL(renameat)(from_folder, from, to_folder, to);
    if (!result) {
        if (source && target) record_paths('R', whole_from, whole_to);
        else record_path('X', source ? whole_from : whole_to);
    }
    pthread_mutex_unlock(&order);
    return result;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char whole_from[PATH_MAX], whole_to[PATH_MAX];
    int source = resolve(from_folder, from, whole_from), target = resolve(to_folder, to, whole_to);
    if (!source && !target) return REAL(linkat)(from_folder, from, to_folder, to, flags);
    if (fails_whole("link", whole_to)) return -1;
    pthread_mutex_lock(&order);
    int result = REAL(linkat)(from_folder, from, to_folder, to, flags);
    if (!result) {
        if (source && target) record_paths('L', whole_from, whole_to);
        else record_path('X', source ? whole_from : whole_to);
    }
    pthread_mutex_unlock(&order);
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *path, int flags) {
    char whole[PATH_MAX];
    if (!resolve(folder, path, whole)) return REAL(unlinkat)(folder, path, flags);
    if (fails_whole("remove", whole)) return -1;
    pthread_mutex_lock(&order);
    int result = REAL(unlinkat)(folder, path, flags);
    if (!result) record_path('U', whole);
    pthread_mutex_unlock(&order);
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode) {
    char whole[PATH_MAX];
    if (!resolve(folder, path, whole)) return REAL(mkdirat)(folder, path, mode);
    if (fails_whole("make folder", whole)) return -1;
    pthread_mutex_lock(&order);
    int result = REAL(mkdirat)(folder, path, mode);
    if (!result) record_path('M', whole);
    pthread_mutex_unlock(&order);
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
