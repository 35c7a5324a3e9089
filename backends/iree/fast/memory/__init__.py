"""Less memory: passes on barriers and on the order of results."""
