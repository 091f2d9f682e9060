/* Records every call that changes files below some folders, in order, and what is written to descriptors 1 and 2.
 *
 * A shared library for LD_PRELOAD. It records from `recorder_start` on, or from the start of the process where the
 * environment has LUXEL_RECORDER_LOG (a folder: events.jsonl, data.PID) and LUXEL_RECORDER_ROOTS (folders, separated by
 * newlines), which child processes inherit. A call and its line are one step, for all threads and processes: so the
 * order of the lines is that of the changes. Calls that fail are not recorded. `fwrite` cannot be interposed: the content of
 * streams, and of files that are mapped for writing, is recorded as a whole when they are flushed, synced or closed.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DESCRIPTORS = 65536, FIRST_OWN = 4000, TEXT = 3 * PATH_MAX + 512 };
enum { OTHER = 0, WATCHED = 1, OUTPUT = 2, OPAQUE = 4 };

static unsigned char state_of[DESCRIPTORS];
static char roots[16][PATH_MAX];
static int root_count, recording, log_fd = -1, data_fd = -1;
static long long data_size;
static pid_t own_pid;
static char log_folder[PATH_MAX];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside; /* calls of the recorder itself, and of functions that call others */

#define REAL(name) \
  static __typeof__(name)* real_##name; \
  if (!real_##name) real_##name = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

static int call_close(int fd) {
  REAL(close);
  return real_close(fd);
}

static ssize_t call_write(int fd, const void* data, size_t size) {
  REAL(write);
  return real_write(fd, data, size);
}

static int call_openat(int folder, const char* path, int flags, mode_t mode) {
  REAL(openat);
  return real_openat(folder, path, flags, mode);
}

static int call_fcntl(int fd, int command, void* argument) {
  REAL(fcntl);
  return real_fcntl(fd, command, argument);
}

static int is_active(void) { /* not in a child of vfork, which shares this memory */
  return recording && !inside && getpid() == own_pid;
}

static int state(int fd) { return fd >= 0 && fd < DESCRIPTORS ? state_of[fd] : OTHER; }
static void set_state(int fd, int value) {
  if (fd >= 0 && fd < DESCRIPTORS) state_of[fd] = (unsigned char)value;
}

static int own_file(const char* name) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/%s", log_folder, name);
  int fd = call_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  int high = call_fcntl(fd, F_DUPFD_CLOEXEC, (void*)(intptr_t)FIRST_OWN);
  if (high < 0) high = call_fcntl(fd, F_DUPFD_CLOEXEC, (void*)(intptr_t)200);
  call_close(fd);
  return high;
}

static void open_own_files(void) {
  char name[32];
  own_pid = getpid();
  snprintf(name, sizeof name, "data.%d", (int)own_pid);
  log_fd = own_file("events.jsonl");
  data_fd = own_file(name);
  data_size = 0;
  recording = log_fd >= 0 && data_fd >= 0;
}

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
static void in_child(void) {
  pthread_mutex_unlock(&mutex);
  if (recording) open_own_files();
}

/* Starts recording in this process; to be called before it opens files that matter. */
int recorder_start(const char* folder, const char* folders) {
  inside++;
  snprintf(log_folder, sizeof log_folder, "%s", folder);
  root_count = 0;
  while (folders && *folders && root_count < 16) {
    size_t length = strcspn(folders, "\n");
    snprintf(roots[root_count++], PATH_MAX, "%.*s", (int)length, folders);
    folders += length + (folders[length] == '\n');
  }
  memset(state_of, 0, sizeof state_of);
  set_state(1, OUTPUT);
  set_state(2, OUTPUT);
  open_own_files();
  inside--;
  return recording;
}

__attribute__((constructor)) static void begin(void) {
  pthread_atfork(before_fork, after_fork, in_child);
  const char* folder = getenv("LUXEL_RECORDER_LOG");
  if (folder && *folder) recorder_start(folder, getenv("LUXEL_RECORDER_ROOTS"));
}

static void lock(void) {
  inside++;
  pthread_mutex_lock(&mutex);
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  while (call_fcntl(log_fd, F_SETLKW, &all) < 0 && errno == EINTR) {
  }
}

static void unlock(void) {
  int error = errno;
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  call_fcntl(log_fd, F_SETLK, &all);
  pthread_mutex_unlock(&mutex);
  inside--;
  errno = error;
}

static int below_roots(const char* path) {
  for (int i = 0; i < root_count; i++) {
    size_t length = strlen(roots[i]);
    if (!strncmp(path, roots[i], length) && (path[length] == '/' || !path[length])) return 1;
  }
  return 0;
}

static int path_of(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return 1;
}

/* The path of a name, links in its folders resolved but not the last part; 0: its folder does not exist. */
static int resolve(int folder, const char* name, char* path) {
  char parent[PATH_MAX];
  snprintf(parent, sizeof parent, "%s", name);
  size_t length = strlen(parent);
  while (length > 1 && parent[length - 1] == '/') parent[--length] = 0;
  char* slash = strrchr(parent, '/');
  const char* last = slash ? slash + 1 : parent;
  const char* around = slash ? (slash == parent ? "/" : parent) : ".";
  char base[NAME_MAX + 1];
  snprintf(base, sizeof base, "%.*s", NAME_MAX, last);
  if (slash) *slash = 0;
  if (slash == parent) around = "/";
  int fd = call_openat(folder, around, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  int ok = path_of(fd, path);
  call_close(fd);
  if (!ok) return 0;
  length = strlen(path);
  snprintf(path + length, PATH_MAX - length, "%s%s", length > 1 ? "/" : "", base);
  return 1;
}

static char* quoted(char* to, const char* text) {
  *to++ = '"';
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\' || c < 32)
      to += sprintf(to, "\\u%04x", c);
    else
      *to++ = (char)c;
  }
  *to++ = '"';
  *to = 0;
  return to;
}

static void emit(const char* text, size_t length) {
  while (length) {
    ssize_t n = call_write(log_fd, text, length);
    if (n <= 0) return;
    text += n;
    length -= (size_t)n;
  }
}

/* One line: {"call": CALL, "pid": N, "path": PATH, "to": TO, and what `format` adds}. */
static void note(const char* call, const char* path, const char* to, const char* format, ...) {
  static char line[8 * TEXT];
  char* at = line + sprintf(line, "{\"call\": \"%s\", \"pid\": %d, \"path\": ", call, (int)own_pid);
  at = quoted(at, path);
  if (to) {
    at += sprintf(at, ", \"to\": ");
    at = quoted(at, to);
  }
  va_list list;
  va_start(list, format);
  at += vsprintf(at, format, list);
  va_end(list);
  at += sprintf(at, "}\n");
  emit(line, (size_t)(at - line));
}

static void inode_of(int fd, char* text) {
  struct stat status;
  if (fstat(fd, &status)) memset(&status, 0, sizeof status);
  sprintf(text, "%llx:%llx", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
}

static void inode_at(const char* path, char* text) {
  struct stat status;
  if (fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW)) memset(&status, 0, sizeof status);
  sprintf(text, "%llx:%llx", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
}

static void append_data(const void* data, size_t size) {
  while (size) {
    ssize_t n = call_write(data_fd, data, size);
    if (n <= 0) return;
    data = (const char*)data + n;
    size -= (size_t)n;
    data_size += n;
  }
}

static void note_data(int fd, const char* call, long long offset, const struct iovec* parts, int count, size_t size) {
  char path[PATH_MAX], inode[64];
  if (state(fd) & OUTPUT)
    sprintf(path, "%d", fd);
  else if (!path_of(fd, path))
    return;
  long long from = data_size;
  size_t left = size;
  for (int i = 0; i < count && left; i++) {
    size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
    append_data(parts[i].iov_base, n);
    left -= n;
  }
  inode_of(fd, inode);
  note(state(fd) & OUTPUT ? "output" : call, path, NULL, ", \"inode\": \"%s\", \"at\": %lld, \"data\": [%lld, %zu]", inode,
       offset, from, size);
}

/* The content of a file as a whole, where single writes cannot be seen. */
static void note_content(int fd) {
  char path[PATH_MAX], inode[64], buffer[65536];
  if (!path_of(fd, path)) return;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int other = call_openat(AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
  if (other < 0) return;
  long long from = data_size;
  ssize_t n;
  while ((n = read(other, buffer, sizeof buffer)) > 0) append_data(buffer, (size_t)n);
  call_close(other);
  inode_of(fd, inode);
  note("content", path, NULL, ", \"inode\": \"%s\", \"at\": 0, \"data\": [%lld, %lld]", inode, from, data_size - from);
}

static int is_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

static void opened(int fd, int flags, int before, int opaque) {
  char path[PATH_MAX], inode[64];
  set_state(fd, OTHER);
  struct stat status;
  if (!path_of(fd, path) || !below_roots(path) || fstat(fd, &status)) return;
  set_state(fd, WATCHED | opaque);
  if (S_ISDIR(status.st_mode) || !is_writing(flags)) return;
  inode_of(fd, inode);
  note("open", path, NULL, ", \"inode\": \"%s\", \"new\": %s, \"cut\": %s, \"flags\": %d", inode, before ? "false" : "true",
       flags & O_TRUNC ? "true" : "false", flags);
}

static int exists(int folder, const char* path, int flags) {
  struct stat status;
  return !fstatat(folder, path, &status, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0);
}

static int recorded_open(int folder, const char* path, int flags, mode_t mode) {
  if (!is_active()) return call_openat(folder, path, flags, mode);
  lock();
  int before = is_writing(flags) ? exists(folder, path, flags) : 1;
  int fd = call_openat(folder, path, flags, mode);
  int error = errno;
  if (fd >= 0) opened(fd, flags, before, 0);
  errno = error;
  unlock();
  return fd;
}

#define MODE_OF(flags, last) \
  mode_t mode = 0; \
  if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) { \
    va_list list; \
    va_start(list, last); \
    mode = va_arg(list, mode_t); \
    va_end(list); \
  }

int open(const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  return recorded_open(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  return recorded_open(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  return recorded_open(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  return recorded_open(folder, path, flags, mode);
}
int __open_2(const char* path, int flags) { return recorded_open(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return recorded_open(AT_FDCWD, path, flags, 0); }
int __openat_2(int folder, const char* path, int flags) { return recorded_open(folder, path, flags, 0); }
int __openat64_2(int folder, const char* path, int flags) { return recorded_open(folder, path, flags, 0); }
int creat(const char* path, mode_t mode) { return recorded_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return creat(path, mode); }

#define TEMPORARY(name, parameters, ...) \
  int name parameters { \
    REAL(name); \
    if (!is_active()) return real_##name(__VA_ARGS__); \
    lock(); \
    int fd = real_##name(__VA_ARGS__); \
    if (fd >= 0) opened(fd, O_RDWR | O_CREAT, 0, 0); \
    unlock(); \
    return fd; \
  }
TEMPORARY(mkstemp, (char* path), path)
TEMPORARY(mkstemp64, (char* path), path)
TEMPORARY(mkostemp, (char* path, int flags), path, flags)
TEMPORARY(mkostemp64, (char* path, int flags), path, flags)
TEMPORARY(mkstemps, (char* path, int length), path, length)

static int flags_of(const char* mode) {
  int both = strchr(mode, '+') != NULL;
  if (*mode == 'r') return both ? O_RDWR : O_RDONLY;
  return (both ? O_RDWR : O_WRONLY) | O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
}

#define STREAM(name, parameters, ...) \
  FILE* name parameters { \
    REAL(name); \
    if (!is_active() || !path) return real_##name(__VA_ARGS__); \
    lock(); \
    int before = exists(AT_FDCWD, path, 0); \
    FILE* stream = real_##name(__VA_ARGS__); \
    if (stream) opened(fileno(stream), flags_of(mode), before, flags_of(mode) == O_RDONLY ? 0 : OPAQUE); \
    unlock(); \
    return stream; \
  }
STREAM(fopen, (const char* path, const char* mode), path, mode)
STREAM(fopen64, (const char* path, const char* mode), path, mode)
STREAM(freopen, (const char* path, const char* mode, FILE* old), path, mode, old)
STREAM(freopen64, (const char* path, const char* mode, FILE* old), path, mode, old)

FILE* fdopen(int fd, const char* mode) {
  REAL(fdopen);
  FILE* stream = real_fdopen(fd, mode);
  if (stream && is_active() && state(fd) & WATCHED && flags_of(mode) != O_RDONLY) set_state(fd, WATCHED | OPAQUE);
  return stream;
}

int fflush(FILE* stream) {
  REAL(fflush);
  if (!is_active() || !stream || !(state(fileno(stream)) & OPAQUE)) return real_fflush(stream);
  lock();
  int result = real_fflush(stream);
  if (!result) note_content(fileno(stream));
  unlock();
  return result;
}

int fclose(FILE* stream) {
  REAL(fclose);
  REAL(fflush);
  int fd = fileno(stream);
  if (!is_active() || !state(fd)) return real_fclose(stream);
  lock();
  if (state(fd) & OPAQUE && !real_fflush(stream)) note_content(fd);
  set_state(fd, OTHER);
  int result = real_fclose(stream);
  unlock();
  return result;
}

static long long end_of(int fd, ssize_t written) {
  off_t position = lseek(fd, 0, SEEK_CUR);
  return position < 0 ? -1 : (long long)position - written;
}

ssize_t write(int fd, const void* data, size_t size) {
  if (!is_active() || !state(fd)) return call_write(fd, data, size);
  lock();
  ssize_t n = call_write(fd, data, size);
  int error = errno;
  struct iovec part = {(void*)data, n > 0 ? (size_t)n : 0};
  if (n > 0) note_data(fd, "write", end_of(fd, n), &part, 1, (size_t)n);
  errno = error;
  unlock();
  return n;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(writev);
  if (!is_active() || !state(fd)) return real_writev(fd, parts, count);
  lock();
  ssize_t n = real_writev(fd, parts, count);
  if (n > 0) note_data(fd, "write", end_of(fd, n), parts, count, (size_t)n);
  unlock();
  return n;
}

#define POSITIONED(name, offset_type) \
  ssize_t name(int fd, const void* data, size_t size, offset_type offset) { \
    REAL(name); \
    if (!is_active() || !state(fd)) return real_##name(fd, data, size, offset); \
    lock(); \
    ssize_t n = real_##name(fd, data, size, offset); \
    struct iovec part = {(void*)data, n > 0 ? (size_t)n : 0}; \
    if (n > 0) note_data(fd, "write", offset, &part, 1, (size_t)n); \
    unlock(); \
    return n; \
  }
POSITIONED(pwrite, off_t)
POSITIONED(pwrite64, off64_t)

#define POSITIONED_PARTS(name, offset_type) \
  ssize_t name(int fd, const struct iovec* parts, int count, offset_type offset) { \
    REAL(name); \
    if (!is_active() || !state(fd)) return real_##name(fd, parts, count, offset); \
    lock(); \
    ssize_t n = real_##name(fd, parts, count, offset); \
    if (n > 0) note_data(fd, "write", offset, parts, count, (size_t)n); \
    unlock(); \
    return n; \
  }
POSITIONED_PARTS(pwritev, off_t)
POSITIONED_PARTS(pwritev64, off64_t)

#define POSITIONED_FLAGS(name, offset_type) \
  ssize_t name(int fd, const struct iovec* parts, int count, offset_type offset, int flags) { \
    REAL(name); \
    if (!is_active() || !state(fd)) return real_##name(fd, parts, count, offset, flags); \
    lock(); \
    ssize_t n = real_##name(fd, parts, count, offset, flags); \
    if (n > 0) note_data(fd, "write", offset < 0 ? end_of(fd, n) : offset, parts, count, (size_t)n); \
    unlock(); \
    return n; \
  }
POSITIONED_FLAGS(pwritev2, off_t)
POSITIONED_FLAGS(pwritev64v2, off64_t)

/* Calls whose data are not in memory, or that change more than their own bytes: the file is recorded as a whole. */
#define WHOLE(type, name, parameters, fd, ...) \
  type name parameters { \
    REAL(name); \
    if (!is_active() || !(state(fd) & WATCHED)) return real_##name(__VA_ARGS__); \
    lock(); \
    type n = real_##name(__VA_ARGS__); \
    int error = errno; \
    if (n >= 0) note_content(fd); \
    errno = error; \
    unlock(); \
    return n; \
  }
WHOLE(ssize_t, sendfile, (int to, int from, off_t* offset, size_t n_bytes), to, to, from, offset, n_bytes)
WHOLE(ssize_t, sendfile64, (int to, int from, off64_t* offset, size_t n_bytes), to, to, from, offset, n_bytes)
WHOLE(ssize_t, copy_file_range, (int from, off64_t* in, int to, off64_t* out, size_t n_bytes, unsigned flags), to, from, in,
      to, out, n_bytes, flags)
WHOLE(ssize_t, splice, (int from, off64_t* in, int to, off64_t* out, size_t n_bytes, unsigned flags), to, from, in, to, out,
      n_bytes, flags)
WHOLE(int, fallocate, (int fd, int mode, off_t offset, off_t length), fd, fd, mode, offset, length)
WHOLE(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length), fd, fd, mode, offset, length)
WHOLE(int, posix_fallocate, (int fd, off_t offset, off_t length), fd, fd, offset, length)

#define CUT(name, offset_type) \
  int name(int fd, offset_type size) { \
    REAL(name); \
    if (!is_active() || !(state(fd) & WATCHED)) return real_##name(fd, size); \
    lock(); \
    int result = real_##name(fd, size); \
    char path[PATH_MAX], inode[64]; \
    inode_of(fd, inode); \
    if (!result && path_of(fd, path)) note("size", path, NULL, ", \"inode\": \"%s\", \"at\": %lld", inode, (long long)size); \
    unlock(); \
    return result; \
  }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define CUT_PATH(name, offset_type) \
  int name(const char* target, offset_type size) { \
    REAL(name); \
    if (!is_active()) return real_##name(target, size); \
    lock(); \
    int result = real_##name(target, size); \
    char path[PATH_MAX], inode[64]; \
    if (!result && realpath(target, path) && below_roots(path)) { \
      inode_at(path, inode); \
      note("size", path, NULL, ", \"inode\": \"%s\", \"at\": %lld", inode, (long long)size); \
    } \
    unlock(); \
    return result; \
  }
CUT_PATH(truncate, off_t)
CUT_PATH(truncate64, off64_t)

#define SYNC(name, call, parameters, ...) \
  int name parameters { \
    REAL(name); \
    char path[PATH_MAX], inode[64]; \
    if (!is_active()) return real_##name(__VA_ARGS__); \
    lock(); \
    if (state(fd) & OPAQUE) note_content(fd); \
    int result = real_##name(__VA_ARGS__); \
    int error = errno; \
    if (!result && path_of(fd, path) && below_roots(path)) { \
      inode_of(fd, inode); \
      note(call, path, NULL, ", \"inode\": \"%s\"", inode); \
    } \
    errno = error; \
    unlock(); \
    return result; \
  }
SYNC(fsync, "sync", (int fd), fd)
SYNC(fdatasync, "sync", (int fd), fd)
SYNC(syncfs, "syncfs", (int fd), fd)

void sync(void) {
  REAL(sync);
  if (!is_active()) {
    real_sync();
    return;
  }
  lock();
  real_sync();
  note("syncfs", "/", NULL, "%s", "");
  unlock();
}

static int recorded_rename(int from, const char* old, int to, const char* name, unsigned flags, int plain) {
  REAL(renameat);
  REAL(renameat2);
  if (!is_active()) return plain ? real_renameat(from, old, to, name) : real_renameat2(from, old, to, name, flags);
  lock();
  char source[PATH_MAX], target[PATH_MAX], inode[64];
  int known = resolve(from, old, source) && resolve(to, name, target);
  int result = plain ? real_renameat(from, old, to, name) : real_renameat2(from, old, to, name, flags);
  int error = errno;
  if (!result && known && (below_roots(source) || below_roots(target))) {
    inode_at(target, inode);
    note("rename", source, target, ", \"inode\": \"%s\", \"flags\": %u", inode, flags);
  }
  errno = error;
  unlock();
  return result;
}

int rename(const char* old, const char* name) { return recorded_rename(AT_FDCWD, old, AT_FDCWD, name, 0, 1); }
int renameat(int from, const char* old, int to, const char* name) { return recorded_rename(from, old, to, name, 0, 1); }
int renameat2(int from, const char* old, int to, const char* name, unsigned flags) {
  return recorded_rename(from, old, to, name, flags, 0);
}

#define NAMED(name, call, folder, given, target, parameters, ...) \
  int name parameters { \
    REAL(name); \
    if (!is_active()) return real_##name(__VA_ARGS__); \
    lock(); \
    char path[PATH_MAX], inode[64]; \
    int known = resolve(folder, given, path) && below_roots(path); \
    int result = real_##name(__VA_ARGS__); \
    int error = errno; \
    if (!result && known) { \
      inode_at(path, inode); \
      note(call, path, target, ", \"inode\": \"%s\"", inode); \
    } \
    errno = error; \
    unlock(); \
    return result; \
  }
NAMED(mkdir, "mkdir", AT_FDCWD, at, NULL, (const char* at, mode_t mode), at, mode)
NAMED(mkdirat, "mkdir", fd, at, NULL, (int fd, const char* at, mode_t mode), fd, at, mode)
NAMED(rmdir, "rmdir", AT_FDCWD, at, NULL, (const char* at), at)
NAMED(unlink, "unlink", AT_FDCWD, at, NULL, (const char* at), at)
NAMED(remove, "unlink", AT_FDCWD, at, NULL, (const char* at), at)
NAMED(unlinkat, (flags & AT_REMOVEDIR ? "rmdir" : "unlink"), fd, at, NULL, (int fd, const char* at, int flags), fd, at,
      flags)
NAMED(symlink, "symlink", AT_FDCWD, at, to, (const char* to, const char* at), to, at)
NAMED(symlinkat, "symlink", fd, at, to, (const char* to, int fd, const char* at), to, fd, at)
NAMED(link, "link", AT_FDCWD, at, to, (const char* to, const char* at), to, at)
NAMED(linkat, "link", fd, at, to, (int from, const char* to, int fd, const char* at, int flags), from, to, fd, at, flags)
NAMED(mkfifo, "special", AT_FDCWD, at, NULL, (const char* at, mode_t mode), at, mode)
NAMED(mkfifoat, "special", fd, at, NULL, (int fd, const char* at, mode_t mode), fd, at, mode)
NAMED(mknod, "special", AT_FDCWD, at, NULL, (const char* at, mode_t mode, dev_t device), at, mode, device)
NAMED(mknodat, "special", fd, at, NULL, (int fd, const char* at, mode_t mode, dev_t device), fd, at, mode, device)

int close(int fd) {
  if (!is_active() || !state(fd)) return fd == log_fd || fd == data_fd ? 0 : call_close(fd);
  lock();
  if (state(fd) & OPAQUE) note_content(fd);
  set_state(fd, OTHER);
  int result = call_close(fd);
  unlock();
  return result;
}

static int duplicated(int old, int fd) {
  if (fd >= 0 && is_active()) set_state(fd, state(old));
  return fd;
}

int dup(int fd) {
  REAL(dup);
  return duplicated(fd, real_dup(fd));
}
int dup2(int fd, int to) {
  REAL(dup2);
  return duplicated(fd, real_dup2(fd, to));
}
int dup3(int fd, int to, int flags) {
  REAL(dup3);
  return duplicated(fd, real_dup3(fd, to, flags));
}

#define CONTROL(name) \
  int name(int fd, int command, ...) { \
    va_list list; \
    va_start(list, command); \
    void* argument = va_arg(list, void*); \
    va_end(list); \
    int result = call_fcntl(fd, command, argument); \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, result) : result; \
  }
CONTROL(fcntl)
CONTROL(fcntl64)

#define MAP(name, offset_type) \
  void* name(void* start, size_t length, int protection, int flags, int fd, offset_type offset) { \
    REAL(name); \
    void* result = real_##name(start, length, protection, flags, fd, offset); \
    if (result != MAP_FAILED && fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE) && is_active() && \
        state(fd) & WATCHED) { \
      char path[PATH_MAX]; \
      lock(); \
      set_state(fd, state(fd) | OPAQUE); \
      if (path_of(fd, path)) note("shared", path, NULL, "%s", ""); \
      unlock(); \
    } \
    return result; \
  }
MAP(mmap, off_t)
MAP(mmap64, off64_t)
