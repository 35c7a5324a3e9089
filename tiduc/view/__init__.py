"""Draws programs: a module is read into scenes; the scenes are folded, then drawn by Graphviz or printed as text."""
