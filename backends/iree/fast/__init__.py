"""IREE is right but slow. All of this room can be switched off: `tiduc compile --no-fast`."""
