"""The bits of 1 / 2 pi, by which an angle in radians becomes a number of turns."""

TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158
"""1 / 2 pi, in units of 2^-256."""
