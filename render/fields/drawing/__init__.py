"""How fields are drawn: rays, wavefront ray marching, sphere tracing, shading."""
