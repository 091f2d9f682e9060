"""How luxel writes and deletes files: only what it made, through no link, under temporary names that are noted.

Every command, every training and the page write through `OutputFolder` or `luxel.render.storage.single`. This room
knows nothing of what the files hold, and imports no torch.
"""
