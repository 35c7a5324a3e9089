"""Makes a module smaller while a test still finds it interesting (`tiduc reduce`).

reduce.py       delta debugging
edits.py        the edits that are tried; add a function there for a new kind of edit
"""
