"""Captures of several synchronised cameras: films or folders of frames, and a calibration of the cameras."""
