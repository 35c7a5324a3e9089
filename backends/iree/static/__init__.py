"""Static libraries for devices without an operating system: kernels as an object file, host code as C.

IREE's compiler writes the kernels; `host.py` translates what calls them, so that no runtime is needed on the device.
"""
