"""What a field learns of its training views."""
