/* A disk that is full: preloaded into Postgres, it refuses to write table files while the file of TIDEGATE_FULL exists.
 *
 * Only what lies under base/, as when tables and write-ahead log are on volumes of their own: a log that cannot be written
 * ends the server, which is another test's matter. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int refused(int fd)
{
    const char *flag = getenv("TIDEGATE_FULL");
    char link[64], path[PATH_MAX];
    ssize_t length;

    if (flag == NULL || access(flag, F_OK) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return strstr(path, "/base/") != NULL;
}

#define REFUSE(fd)          \
    if (refused(fd)) {      \
        errno = ENOSPC;     \
        return -1;          \
    }

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    REFUSE(fd)
    if (real == NULL)
        real = (ssize_t (*)(int, const void *, size_t, off64_t)) dlsym(RTLD_NEXT, "pwrite64");
    return real(fd, data, count, offset);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    REFUSE(fd)
    if (real == NULL)
        real = (ssize_t (*)(int, const void *, size_t, off_t)) dlsym(RTLD_NEXT, "pwrite");
    return real(fd, data, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    static ssize_t (*real)(int, const struct iovec *, int, off64_t);
    REFUSE(fd)
    if (real == NULL)
        real = (ssize_t (*)(int, const struct iovec *, int, off64_t)) dlsym(RTLD_NEXT, "pwritev64");
    return real(fd, parts, count, offset);
}
