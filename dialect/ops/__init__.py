"""Ops: the dialect `tidu`, ops that call graphs, custom calls that replace Shardy's ops, and the table of traits."""
