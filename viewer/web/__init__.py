"""The web viewer: server, sessions, image stream, access control, panels."""
