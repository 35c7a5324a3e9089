"""Draws pictures of programs (`tiduc view`). The files, in the order in which they work:

    read.py, label.py                       turn a module into scenes (scene.py): boxes for ops, and arrows for values
    fold.py, repeats.py                     replace repeated sequences of ops by boxes, each of which opens a scene
    parts.py                                splits large scenes into parts
    first_page.py, side_by_side.py          choose the scenes that are shown first, such as a program and its derivative
    dot.py, draw.py                         write scenes in Graphviz's language, and convert this language to SVG or PNG
    html.py, page.*                         write a web page in which users open, search and zoom scenes
    png.py, text.py, listing.py             write other formats: PNG, trees of text, and assignments
    curve.py                                draws the chart of memory against time

Only draw.py runs Graphviz, and only read.py and label.py read MLIR.
"""
