"""Taylor series of the values of a graph: propagation through ops, control flow, and recurrences by hand."""
