"""GPUs: passes on products, convolutions and sums for NVIDIA's; a pattern for gradients of max-pools on all GPUs."""
