"""Where the parameters of a scene and the moments of Adam are held while it is trained."""
