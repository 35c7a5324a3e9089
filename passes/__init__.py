"""Differentiation: the stages, the tables of rules that the stages use, and functions that stages lend to rules.

importing, resolve, linearize, linear_transpose, jet, materialize_merge, structure, rematerialize, lower    stages
batch, collapse, cut, diagonal, widen, infer_active     further transforms of graphs, which derivatives use
rules, batching, jets                                   a rule for each op: derivatives, vmap, Taylor mode
engine                                                  functions that stages lend to rules
lowerings.py                                            lowerings of custom ops, which users register
"""
