/* A disk that is slow to confirm: every fsync and fdatasync takes SYNC_DELAY_MS longer. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void delay(void)
{
    const char *text = getenv("SYNC_DELAY_MS");
    long milliseconds = text ? atol(text) : 0;
    struct timespec wait = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&wait, NULL);
}

int fsync(int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    delay();
    return real(file);
}

int fdatasync(int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    delay();
    return real(file);
}
