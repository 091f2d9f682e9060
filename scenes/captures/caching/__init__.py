"""Results of captures that are stored to be used again."""
