"""The training views: their images and what these show, and what is learnt of each view alongside the scene."""
