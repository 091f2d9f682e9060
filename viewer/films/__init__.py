"""Films and still images that leave luxel: their formats, the files that they replace, and the frames themselves."""
