"""COLMAP in a process of its own: whatever it does to a database or an image, luxel goes on with a message."""
