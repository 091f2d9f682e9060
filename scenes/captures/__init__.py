"""Captures: `registry` lists their formats, `open_capture` opens them; images, lenses, masks, structure from motion."""
