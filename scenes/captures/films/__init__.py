"""Films: their streams, frames and timestamps, and what is to be said of them."""
