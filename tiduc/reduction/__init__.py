"""Makes a module smaller while a test still finds it interesting (`tiduc reduce`).

reduce.py    delta debugging
edits.py     the edits that a reduction tries; to add a kind of edit, add a function to `EDITS`
"""
