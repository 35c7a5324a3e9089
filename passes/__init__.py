"""One stage a file, one verb a stage."""
