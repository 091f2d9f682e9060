"""Two scenes under one camera: their session, their images, and what is said when they do not fit together."""
