"""The engines that compile and run lowered programs: one folder for each.

Each folder has a module `backend`, which defines the engine's `Backend` record. `find_backend` imports this
module.
"""
