"""Less time to compile: the passes elementwise_maps, and repeats, which uses runs and origins."""
