"""Facts about ops that need values, not names alone: identities, formulas, windows, costs, calls of LAPACK."""
