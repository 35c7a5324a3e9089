"""Pictures of programs (`tiduc view`), in this order:

    read.py, label.py                       a module to scenes of boxes and arrows (scene.py), and the text in boxes
    fold.py, repeats.py                     repeated ops become one box, which opens a scene of its own
    parts.py                                large scenes are split into parts
    first_page.py, side_by_side.py          which scenes are shown first: for a derivative, beside its program
    dot.py, draw.py                         scenes to Graphviz's language, and this language to SVG or PNG
    html.py, page.*                         the page in which one opens, searches and zooms scenes
    png.py, text.py, listing.py             other formats: a picture, a tree, assignments
    curve.py                                the chart of memory against time

Only draw.py knows how to run Graphviz, and only read.py and label.py read MLIR.
"""
