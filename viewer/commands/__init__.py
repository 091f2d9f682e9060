"""The commands of `luxel`, one file each: a dataclass whose fields are the options, and its execute()."""
