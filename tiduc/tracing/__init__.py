"""Values, tangents and cotangents of every op of a program, at given arguments (`tiduc trace`).

survey.py           lists the ops of a graph, with their source locations, their loops and their operands
rewrite.py          makes a graph return the values of ops, and adds inputs whose cotangents are those of the ops
runs.py             runs these graphs in batches, so that the values of a batch fit into a memory limit
summaries.py        computes norms and extremes, and counts NaNs and infinities
origin.py           finds the op that computed the first NaN or infinity
trace.py            `trace`, the function for users, which calls the functions of the files above
picture.py          draws the program, with the norms in the boxes of the ops
"""
