"""Differentiation: the stages, which transform graphs, and the tables of rules for ops that the stages apply.

importing, resolve, linearize, linear_transpose, jet, materialize_merge, structure, rematerialize, lower    stages
batch, collapse, cut, diagonal, widen, infer_active     further transforms of graphs, which derivatives use
rules                                                   rules of ops for derivatives
batching                                                rules of ops for vmap
jets                                                    rules of ops for Taylor mode
engine                                                  functions on graphs that stages and rules share
lowerings.py                                            lowerings of custom ops, which users register
"""
