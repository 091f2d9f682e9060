"""How fields are drawn: rays, waves of samples, sphere tracing, shading."""
