"""Scene formats that store primitives as they are, one a file: .ply, .safetensors, time slices, labels."""
