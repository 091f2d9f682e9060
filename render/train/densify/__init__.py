"""Density control: one strategy per file, a dataclass whose fields are its options."""
