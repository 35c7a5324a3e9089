from ._mlir_libs._mlir.rewrite import *
