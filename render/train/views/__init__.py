"""What is learnt of each training view beside the scene."""
