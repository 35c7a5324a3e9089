"""The IR: graphs, values, references, the builder, and the table of facts about ops (ops/traits.py).

Transformations of the IR are in `passes/`. Facts about an engine are in `backends/`. docs/architecture.md has a table
of the subfolders of this folder. Each subfolder imports only subfolders before it in this list: ops, mlir, graph,
shapes, facts, dynamic, emitters, control.
"""
