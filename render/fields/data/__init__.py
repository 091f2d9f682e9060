"""Training data of fields: large and high dynamic range images, samples of distances."""
