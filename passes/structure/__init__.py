"""The stage that lowers loops, branches and calls of a graph to StableHLO's control flow, and fuses them.

    structure.py                        the stage: calls the files below in order
    clusters.py, plan.py                decide: which ops are fused, how each loop gets its residuals (`Plan`, frozen)
    loops.py, steps.py                  emit: a loop for each cluster, around one iteration
    segmented.py, checkpointed.py       emit loops that recompute their residuals, by segments or from checkpoints
    records.py                          the arrays that a loop writes for later loops
    slots.py, while_loops.py, scope.py  help to emit: cotangents of array entries, `stablehlo.while`, the new graph

Emission reads the plan and never changes it. docs/control_flow.md says which file to open for a change.

Terms of this folder: a *member* is all ops of one call site, and a *cluster* is the members that are fused into one op.
The results of a loop are *carries*, which each iteration passes to the next, and *sequences*, to which each iteration
adds one element. A *stack* is an array that stores such elements. A *step* is one iteration of a cluster's loops. A
*place*, often called `at`, is a result of a member (`MemberResult`).
"""
