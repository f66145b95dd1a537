/* Makes one kind of system call fail, on paths that contain a word, from its n-th time on.
   FAULT_CALL: fsync, fdatasync or write (pwrite too); FAULT_ERRNO: a number, or 0 for short writes; FAULT_PATH; FAULT_AFTER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int descriptor, const char *call) {
    static int passed;
    const char *wanted = getenv("FAULT_CALL"), *word = getenv("FAULT_PATH"), *after = getenv("FAULT_AFTER");
    char link[64], path[4096];
    if (!wanted || strcmp(wanted, call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, word)) return 0;
    return ++passed > atoi(after);
}

static int error_number(void) { return atoi(getenv("FAULT_ERRNO")); }

#define SYNC(name) \
    int name(int descriptor) { \
        static int (*real)(int); \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        if (fails(descriptor, #name)) { errno = error_number(); return -1; } \
        return real(descriptor); \
    }
SYNC(fsync)
SYNC(fdatasync)

#define PWRITE(name, offset_type) \
    ssize_t name(int descriptor, const void *data, size_t size, offset_type offset) { \
        static ssize_t (*real)(int, const void *, size_t, offset_type); \
        if (!real) real = (ssize_t (*)(int, const void *, size_t, offset_type))dlsym(RTLD_NEXT, #name); \
        if (fails(descriptor, "write")) { \
            if (error_number()) { errno = error_number(); return -1; } \
            if (size < 2) { errno = ENOSPC; return -1; } \
            return real(descriptor, data, size / 2, offset); \
        } \
        return real(descriptor, data, size, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int descriptor, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (fails(descriptor, "write")) {
        if (error_number()) { errno = error_number(); return -1; }
        return real(descriptor, data, size / 2);
    }
    return real(descriptor, data, size);
}
