// RUN: tiduc opt %s --load-passes %S/Inputs/my_passes.py --pass-pipeline='func.func(cse),my-rename{to=f},tidu-import' --dump-pass-pipeline 2>&1 | filecheck %s
// RUN: tiduc opt %s --load-passes %S/Inputs/my_passes.py --cse --my-rename=to=g | filecheck %s --check-prefix=FLAG
// RUN: not tiduc opt %s --load-passes %S/Inputs/my_passes.py --my-failure 2>&1 | filecheck %s --check-prefix=RAISED
// RUN: not tiduc opt %s --load-passes %S/Inputs/my_passes.py:rename 2>&1 | filecheck %s --check-prefix=LIST
// RUN: not tiduc opt %s --load-passes nowhere.py 2>&1 | filecheck %s --check-prefix=NOWHERE

// A user's passes run between tiduc's passes and MLIR's.

// CHECK:   builtin.module(func.func(cse),my-rename{to=f},tidu-import)
// CHECK:   sym_name = "f"
// FLAG:    func.func @g
// RAISED:  my_passes.py:14: error: pass 'my-failure' raised ValueError: no luck
// LIST:    my_passes.py has no list rename of tiduc.opt.Pass
// NOWHERE: file not found: nowhere.py
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
