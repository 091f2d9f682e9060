"""Access control of the viewer: tokens and TLS, limits of the server, what pages may send, turns at the renderer."""
