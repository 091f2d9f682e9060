/* The C ABI of luxel's native libraries: conventions of all argument structs, and what the libraries report about themselves.
 *
 * libluxel_cpu and libluxel_cuda export the same functions, declared in the headers of this folder, one per family. Each stage takes one zero-initialised argument struct. A pointer marked "optional" may be null:
 * an input is then absent, an output is not computed. Tensors are contiguous and in device memory, unless a comment says
 * "host memory". Pixel centres are at (column + 0.5, row + 0.5). The libraries allocate nothing: outputs, workspaces and
 * temporary storage belong to the caller. Functions return 0, or a negative number after which luxel_last_error() describes
 * the failure.
 *
 * Every struct starts with: dtype (0 float32, 1 float64; the GPU has float32 only), device (CUDA ordinal), stream
 * (cudaStream_t). `real` in a field's comment is float or double, as dtype says. A comment gives the direction (in, out, inout; fwd
 * or bwd where a struct serves both passes) and the shape [..].
 *
 * render/native.py parses these headers for its struct layouts, and refuses a library that was compiled from different ones: both
 * sides hash the concatenation in the order of the files' names. The parser needs one field per line. Fields of a struct that is
 * embedded in another one are set by name as if they were the outer one's own. */
#ifndef LUXEL_ABI_BASE_H
#define LUXEL_ABI_BASE_H

#include <stdint.h>

#define LUXEL_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

LUXEL_API const char* luxel_last_error(void);         /* message of the calling thread's last failure */
LUXEL_API void luxel_set_last_error(const char* message); /* replaces it; for shared objects that a library calls */
LUXEL_API const char* luxel_abi_sha256(void);         /* hash of the headers that the library was compiled from */
LUXEL_API int64_t luxel_abi_sizeof(const char* name); /* bytes of a struct; -1 for an unknown name */
LUXEL_API int32_t luxel_cpu_level(void);              /* 3 where the CPU runs x86-64-v3 code, else 1 (CPU library) */

#ifdef __cplusplus
}
#endif
#endif /* LUXEL_ABI_BASE_H */
