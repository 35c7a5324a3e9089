"""GPUs: passes for NVIDIA's on products, convolutions and sums; a pattern for gradients of max-pools on all GPUs."""
