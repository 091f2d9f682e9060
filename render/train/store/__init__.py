"""Where the parameters of a scene and the moments of Adam are stored while it is trained."""
