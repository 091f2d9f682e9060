"""What is learnt of each training view alongside the scene."""
