"""Memory planning (rematerialization) of a flat graph: orders its ops, and recomputes values to meet a budget.

    rematerialize.py    the stage: calls the files below in order
    liveness.py         a model that predicts how many bytes are live at each op of a schedule
    inside.py           the bytes and the time of the regions of loops, branches and calls
    regions.py          the place where a program ends its first execution region, after which results are allocated
    order.py            a schedule of lower peak, at equal cost
    cheap.py            recomputation of values that cost almost nothing, which needs no budget
    recompute.py        recomputation of other values until the peak is within a budget
    segments.py         nested segments of a schedule, whose values are recomputed together
    second_runs.py      the schedule in which ops run again, because their results are not kept
    search.py           the best schedule of a graph of a few ops
    loops.py            which loops store stacks and which store checkpoints, within a budget
    emit.py             the graph of a schedule, with barriers before recomputed ops
    budget.py           parses and prints budgets as users write them

passes/structure emits the loops with the stacks or checkpoints that loops.py chooses. The other files here treat a loop
as one op.
"""
