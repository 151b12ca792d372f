/* Preloaded library that lets the n-th write, rename, sync or truncation below a folder fail, or kills the process.

   With ENOSPC the write that fills the disk writes half of its bytes, and all later writes fail. A process that is killed
   has written half of its bytes too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char under[PATH_MAX];
static long at, n_calls;
static int kind; /* an errno, or -1 to kill */

void fault_arm(const char* folder, long number, int how) {
  strncpy(under, folder, sizeof under - 1);
  at = number;
  kind = how;
  n_calls = 0;
}

long fault_calls(void) { return n_calls; }

static int inside(const char* path) { return under[0] && strncmp(path, under, strlen(under)) == 0; }

static int inside_fd(int fd) {
  char link[64], path[PATH_MAX];
  if (!under[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return inside(path);
}

/* whether this call fails */
static int hit(int is_write) {
  n_calls++;
  return at > 0 && (n_calls == at || (n_calls > at && kind == ENOSPC && is_write));
}

static int fail(void) {
  if (kind < 0) kill(getpid(), SIGKILL);
  errno = kind;
  return -1;
}

#define REAL(type, name, ...)                           \
  static type (*real)(__VA_ARGS__);                     \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  if (inside_fd(fd) && hit(1)) {
    const ssize_t half = n_calls == at && size > 1 && kind != EIO ? real(fd, data, size / 2) : 0;
    return half > 0 && kind == ENOSPC ? half : fail();
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  return inside_fd(fd) && hit(0) ? fail() : real(fd);
}

int ftruncate(int fd, off_t size) {
  REAL(int, "ftruncate", int, off_t);
  return inside_fd(fd) && hit(0) ? fail() : real(fd, size);
}

int ftruncate64(int fd, off_t size) {
  REAL(int, "ftruncate64", int, off_t);
  return inside_fd(fd) && hit(0) ? fail() : real(fd, size);
}

int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  return inside(to) && hit(0) ? fail() : real(from, to);
}

int renameat(int a, const char* from, int b, const char* to) {
  REAL(int, "renameat", int, const char*, int, const char*);
  return inside(to) && hit(0) ? fail() : real(a, from, b, to);
}
