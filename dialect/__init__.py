"""The IR of tiduc: graphs of ops and values, the builder that emits ops, and the table of ops' traits (ops/traits.py).

Transformations of the IR are in `passes/`. Code for one engine, such as IREE, is in `backends/`. docs/architecture.md
has a table of the subfolders of this folder. Each subfolder imports only subfolders before it in this list: ops, mlir,
graph, shapes, facts, dynamic, emitters, control.
"""
