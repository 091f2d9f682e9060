"""What an image of a scene shows: its layers as colours, labels, legends, and what is under a pixel."""
