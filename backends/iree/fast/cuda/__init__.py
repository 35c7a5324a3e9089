"""Code for GPUs: products, convolutions and sums on NVIDIA GPUs; gradients of max-pools on all GPUs."""
