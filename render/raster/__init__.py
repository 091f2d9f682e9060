"""From primitives to images: the pipeline of stages, `rasterize`, and renderers for many images."""
