"""Convolutions on CPUs as kernels of vectors: the pass is convolutions_to_kernels; the other files are parts of it."""
