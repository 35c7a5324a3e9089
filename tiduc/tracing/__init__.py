"""Values, tangents and cotangents of every op of a program, at given arguments (`tiduc trace`).

survey.py           the ops of a graph, with their places, their loops and what they read
rewrite.py          makes a graph return values of ops, and gives inputs to ops whose cotangents are wanted
runs.py             runs such graphs in batches that fit into a limit of memory
summaries.py        norms, extremes, and NaNs and infinities
origin.py           the op that made the first NaN or infinity
trace.py            `trace`: all of these
picture.py          the program as a picture, with norms in its boxes
"""
