"""Functions on graphs. Stages, vmap, and the rules of calls, branches and loops all use them.

    close.py        makes a closed graph that computes given values; inlines such a graph
    split.py        separates the linear part of a graph from the primal values that it reads
    recompute.py    chooses residuals by a minimum cut; the other values are recomputed from them

Rules may not import stages, so `linearize` and `linear_transpose` pass these functions to them (passes/rules/lent.py).
"""
