"""What fields trained on captures share: posed images, extent, occupancy, sky and exposure."""
