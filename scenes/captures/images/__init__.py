"""Images of captures: files, masks, labels and frames of videos."""
