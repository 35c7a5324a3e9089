"""Facts about ops that depend on more than the op's name: identities, windows, costs, and calls of LAPACK."""
