"""Static libraries for devices without an operating system: kernels as an object file, host code as C.

    library.py          compile_library: runs IREE's compiler, and writes the C file and its header
    header.py           the interface of the C function, and its header
    state.py            the structs and functions of a training step; state.c saves and loads the state
    host.py             translates the host code, which calls the kernels, to C statements
    arithmetic.py       scalar ops of the host code, as C expressions
    constants.py        the bytes of constants
    liveness.py         finds the buffers that are live after each op, so that the host code can free the others
    scalars/            compiles small programs to one kernel of scalar or vector ops, which scalars.c calls
    shared.py           reads the C files below
    records.c           the structs through which C code and kernels exchange data; each C file begins with them
    prelude.c           the allocator
    dispatch.c          C functions that find the kernels in the object file and run their workgroups

IREE's compiler writes the kernels. The device needs no runtime, because the host code is C. docs/devices.md describes
the use of such a library. The tests are in test/py/test_static_library.py.
"""
