"""Features and matches that withstand larger turns of the view, of images whose ordinary features do not suffice."""
