"""Images of captures: files, masks, labels, exposure data and video."""
