"""The ops: those of the dialect `tidu`, the calls that stand for Shardy's ops, and the table of facts about all ops."""
