// CPU twin of view_pose.
#include "kernels/train/views/pose.h"

extern "C" {

int luxel_view_pose_fwd(const luxel_view_pose_args* args) {
  for (int view = 0; view < args->views; ++view)
    args->dtype ? luxel::move_camera<double>(*args, view) : luxel::move_camera<float>(*args, view);
  return 0;
}

int luxel_view_pose_bwd(const luxel_view_pose_args* args) {
  for (int view = 0; view < args->views; ++view)
    args->dtype ? luxel::move_camera_gradient<double>(*args, view) : luxel::move_camera_gradient<float>(*args, view);
  return 0;
}
}
