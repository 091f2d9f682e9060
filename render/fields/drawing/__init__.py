"""How fields are rendered: rays, wavefront ray marching, sphere tracing, shading."""
