// What both libraries report about themselves: the hash and struct sizes of their ABI, and the last error of the calling thread.
#include "abi_structs.h"  // made by CMake of all headers in abi
#include "kernels/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace luxel {
namespace {
thread_local char last_error[512] = "";
}

int fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(last_error, sizeof last_error, format, list);
  va_end(list);
  return -1;
}
}  // namespace luxel

extern "C" {

const char* luxel_last_error(void) { return luxel::last_error; }

void luxel_set_last_error(const char* message) { luxel::fail("%s", message); }

const char* luxel_abi_sha256(void) { return LUXEL_ABI_SHA256; }

int64_t luxel_abi_sizeof(const char* name) {
#define LUXEL_SIZEOF(type) \
  if (std::strcmp(name, #type) == 0) return static_cast<int64_t>(sizeof(type));
  LUXEL_STRUCTS(LUXEL_SIZEOF)
#undef LUXEL_SIZEOF
  return -1;
}

int32_t luxel_cpu_level(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 3;
#endif
  return 1;
}
}
