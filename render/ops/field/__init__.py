"""Stages of neural fields: encodings, networks, rays and compositing."""
