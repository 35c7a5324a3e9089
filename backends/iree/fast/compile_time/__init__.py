"""Less time to compile: the passes elementwise_maps and repeats, the latter with runs and origins."""
