"""GPUs: passes on products, convolutions and sums, for NVIDIA GPUs; a pattern for gradients of max-pools, for all."""
