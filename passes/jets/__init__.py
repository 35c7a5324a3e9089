"""Taylor mode: the Taylor coefficients of values, propagated op by op. The stage `jet` is in passes/jet.py.

    series.py           Series: the coefficients of each value, computed on request
    applied_rules.py    the linearize rule of an op applied to placeholders, from which the series of its results follow
    recurrences.py      ops with a recurrence of their own, which is cheaper than their linearize rule: powers
    control.py          calls, branches and loops, whose bodies become graphs of coefficients

An op with a linearize rule needs no entry here.
"""
