"""Functions that linearize and linear_transpose lend to the rules of calls, branches and loops."""
