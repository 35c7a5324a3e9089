"""The engines that compile and run lowered programs: one folder for each.

`find_backend` imports the module `backend` of a folder, which defines the engine's `Backend` record.
"""
