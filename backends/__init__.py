"""From lowered programs to what runs them. One folder is one engine, and holds every fact about that engine.

A folder's module `backend` has the `Backend` record that `backend.find_backend` finds by the folder's name.
"""
