"""Ops: the dialect `tidu`, ops that call graphs, calls that represent Shardy's ops, and the table of traits."""
