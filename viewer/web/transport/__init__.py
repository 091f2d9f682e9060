"""Carries images and cameras between pages and the server: websocket, script, encoders."""
