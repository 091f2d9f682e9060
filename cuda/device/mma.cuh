// Matrix products in half precision with float accumulators on tensor cores, by one warp.
//
// Lane 4 g + t of a warp holds, of a 16 x 8 accumulator tile, rows g and g + 8 at columns 2 t and 2 t + 1 (four floats in this
// order); of a 16 x 16 left factor A the same elements of its left and its right 16 x 8 part (four half2: rows g and g + 8
// of the left part, then of the right). Two neighbouring accumulator tiles rounded to half are therefore a left factor.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace luxel {

__device__ __forceinline__ uint32_t pack_halves(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ float2 unpack_halves(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

// c += a b, with a [16, 16] and b [16, 8] as two 8 x 8 tiles, upper and lower.
__device__ __forceinline__ void multiply_tiles(float (&c)[4], const uint32_t (&a)[4], uint32_t upper, uint32_t lower) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(upper), "r"(lower));
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(upper));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[2]), "r"(a[3]), "r"(lower));
#endif
}

// Loads four 8 x 8 tiles from shared memory; lanes 8 i .. 8 i + 7 pass the 16-byte aligned row addresses of tile i. Lane 4 g + t
// gets row g, columns 2 t and 2 t + 1 of each tile; transposed: rows 2 t and 2 t + 1, column g.
__device__ __forceinline__ void load_tiles(uint32_t (&to)[4], const __half* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_tiles_transposed(uint32_t (&to)[4], const __half* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_two_tiles_transposed(uint32_t (&to)[2], const __half* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}

constexpr int kTilePadding = 8;  // halves after each row of a matrix in shared memory: eight rows are then free of bank conflicts

}  // namespace luxel
