"""`luxel bench segment`: how well labels follow from masks, and how long masks, votes and label images take."""
