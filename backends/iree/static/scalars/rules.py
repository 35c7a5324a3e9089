"""The functions that evaluate StableHLO ops on arrays of scalar ops, by the names of the ops."""

from collections.abc import Mapping

from tiduc.backends.iree.static.scalars import control, factorizations, indexing
from tiduc.backends.iree.static.scalars.arrays import Evaluation, Rule

RULES: Mapping[str, Rule] = {
    rule.__name__.rstrip("_"): rule
    for rule in (
        Evaluation.constant,
        Evaluation.iota,
        Evaluation.broadcast_in_dim,
        Evaluation.reshape,
        Evaluation.transpose,
        Evaluation.slice,
        Evaluation.pad,
        Evaluation.concatenate,
        Evaluation.reverse,
        Evaluation.reduce,
        Evaluation.dot_general,
        indexing.dynamic_slice,
        indexing.dynamic_update_slice,
        indexing.gather,
        indexing.scatter,
        control.while_,
        control.if_,
        control.case,
        factorizations.cholesky,
        factorizations.triangular_solve,
        factorizations.custom_call,
    )
}
