"""Facts that depend on more than an op's name: identities, formulas, windows, costs, calls of LAPACK."""
