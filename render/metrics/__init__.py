"""How good images and scenes are: PSNR, SSIM and LPIPS, errors of depth, and the evaluation of views."""
