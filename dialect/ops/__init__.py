"""The ops: those of the dialect `tidu`, calls that represent Shardy's ops, and the table of facts about all ops."""
