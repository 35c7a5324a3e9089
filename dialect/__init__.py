"""The IR: graphs, values, references and the builder. Transformations of the IR are in `passes/`."""
