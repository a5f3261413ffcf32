/* Preloaded into a broker (LD_PRELOAD): each write to a partition's log takes SLOW_DISK_MS longer, as on a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 4 || strncmp(path + size - 4, ".log", 4) != 0) return;
    path[size] = 0;
    if (strstr(path, "__cluster_metadata")) return; /* its disk is slow for topics, and it stays in the quorum */
    const char *ms = getenv("SLOW_DISK_MS");
    long wait = ms ? atol(ms) : 0;
    struct timespec pause = {wait / 1000, wait % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    wait_for_disk(fd);
    return real(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    wait_for_disk(fd);
    return real(fd, data, size, at);
}
