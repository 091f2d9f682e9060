// A policy as a shared object of its own, which a library takes at run time (luxel_add_policy): the only source file of the object is
//
//   #include "my_policy.h"
//   #include "kernels/raster/policy_object.h"
//   LUXEL_POLICY_OBJECT(my_policy, MyPolicy)
//
// compiled with the headers of that library and -DLUXEL_ABI_SHA256="...", by g++ for the CPU and by nvcc for the GPU;
// luxel.render.ops.raster.own_policies does so. MyPolicy: a class template of the number's type, see math/raster/policy.h.
#pragma once

#include "kernels/error.h"
#include "kernels/raster/stages_of.h"

#include <cstdarg>
#include <cstdio>

namespace luxel {

inline void (*set_library_error)(const char*) = nullptr;  // luxel_set_last_error of the library that took the policy

inline int fail(const char* format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  if (set_library_error != nullptr) set_library_error(message);
  return -1;
}

}  // namespace luxel

// Defines luxel_policy_object, which takes the address of luxel_set_last_error and returns the stages and their size.
#define LUXEL_POLICY_OBJECT(name, Policy)                                                                                 \
  extern "C" LUXEL_API const void* luxel_policy_object(void (*set_last_error)(const char*), int64_t* bytes) {             \
    static constexpr luxel::PolicyStages stages = luxel::stages_of<Policy>(#name);                                        \
    luxel::set_library_error = set_last_error;                                                                            \
    *bytes = sizeof stages;                                                                                               \
    return &stages;                                                                                                       \
  }
