"""Half the inverse of pi, which says how many turns an angle is."""

TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158
"""1 / 2 pi, as so many parts of 2^256."""
