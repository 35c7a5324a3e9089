"""Faster code for GPUs: products, convolutions and sums on NVIDIA's GPUs, and gradients of max-pools on all GPUs."""
