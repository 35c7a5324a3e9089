"""Damaged bytecode files, on which MLIR's reader crashes, does not end, or exhausts the memory.

Each file is a copy of a valid file with some other bytes.
"""

import base64

BYTECODE = base64.b85decode(
    "O-%1n4NXi*QZh6yFfK4>X><SqCkFuq2@wGU4+8}U69o$w8y_PR12-WH0U-+$6Au#$3kwSq6CV>3GZO&|4-*F$4+5bD6BhvqF"
    "&6;=0RaOE0|N^U1r-Gs4F?4o7XbqU7Xbq!B>@Ql0000N0R<5k0S6Hy2?G%T000000000N0SgBk0R<Za5d{kc0|NsA0RjXBod"
    "p3<1px;HjROG%15gtK2LyQo2@?Yc6#xf983h9Y2}T<S0|NsA3swUO0|5mE0|x{x0|yHQ0|NsC01XBM0|5mA0}liP0|f;H9|H"
    "#l0|5mA0KXdx1r-Ge4+|3y4;2d$Vs&Y3bZKq?W_5030CRL<Vr*q-Y;OQ<Z)A0BWdL$zbairW0Ap`%b97;DbO3W{Ze;*+Wn^_"
    "@WdLDhWB@GybZKODE^c9MWdL{pZDDC{00<)s1pxsK4-WwW5di}i0|5ga"
)
ARTIFACT = base64.b85decode(
    "O-%1n4O4VsVr*qdOiy2SF)lGRE-(NA9|Zvg4*>%U0}T%o7aJcV14Stf0TBxm6B82?6B7d&4-*Ru3kwSi9~TQR0}T%o2Nx3u0"
    "=Wef7Xb@37XbqU7Xbwa7Xbw)7Xb$u7Xb+s7Xb|m0|OHc0~Hq?6&)8N2Lk~e866uR0SN#A001cg0Rbf^0Urqw0000000000DF"
    "Fp30}%xY5d#AQ0Vx9o3mpWV1p!b60S5$)0|5mEPzM7C1bG7q69Wec00%+~1p@&IMhyo80|NmIRs#tG0R;sE2Lvqx2MYxQ0|N"
    "s94F&@P0R;gA0|WyD1p@>R0|y2J0R;g7-5mo91r-Gk6%iQ`6%Pv$Vs&Y3bZKq?c4%yG0Bvt%b!=q-a%FUNa&BLCF#u+DZew3"
    "|F#uz4ZgX^DZggLEF#vOEZe?F~G5~UAWOZX@Uv@D7VPs@qb};}g0CZ_&buMmUZDjy>0BvDuZU6uXAqxco0Sgfs8yz15Ap;`="
    "Cj"
)


def _changed(sound: bytes, *changes: tuple[int, int]) -> bytes:
    damaged = bytearray(sound)
    for at, byte in changes:
        damaged[at] = byte
    return bytes(damaged)


DEADLY = {
    "abort": _changed(BYTECODE, (158, 128)),
    "overflow": _changed(BYTECODE, (128, 1), (153, 0)),
    "artifact-abort": _changed(ARTIFACT, (28, 128)),
    "artifact-overflow": _changed(ARTIFACT, (380, 1)),
}
ENDLESS = _changed(BYTECODE, (137, 1))
HUNGRY = _changed(BYTECODE, (172, 0))  # the reader allocates 2.7 GB
