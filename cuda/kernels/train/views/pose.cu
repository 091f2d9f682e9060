// view_pose on the GPU: a thread per camera.
#include "kernels/train/views/pose.h"

#include "device/launch.cuh"

namespace luxel {
namespace {

constexpr int kThreads = 32;

__global__ void __launch_bounds__(kThreads) pose_kernel(const luxel_view_pose_args args) {
  const int view = blockIdx.x * kThreads + threadIdx.x;
  if (view < args.views) move_camera<float>(args, view);
}

__global__ void __launch_bounds__(kThreads) pose_bwd_kernel(const luxel_view_pose_args args) {
  const int view = blockIdx.x * kThreads + threadIdx.x;
  if (view < args.views) move_camera_gradient<float>(args, view);
}

}  // namespace
}  // namespace luxel

extern "C" {

int luxel_view_pose_fwd(const luxel_view_pose_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("view_pose", pose_kernel, blocks_for(args->views, kThreads), kThreads, 0, args->stream, *args);
}

int luxel_view_pose_bwd(const luxel_view_pose_args* args) {
  using namespace luxel;
  if (args->dtype != 0) return fail("the GPU kernels take float32");
  LUXEL_CUDA(cudaSetDevice(args->device));
  return launch("view_pose_bwd", pose_bwd_kernel, blocks_for(args->views, kThreads), kThreads, 0, args->stream, *args);
}
}
