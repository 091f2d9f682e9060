"""Scene formats that store Gaussians in few bits: SPZ, compressed PLY, .splat, .ksplat."""
