// RUN: tiduc run %s --input 2 --input f64=3 | filecheck %s
// RUN: tiduc vjp %s | tiduc compile - -o %t.vmfb
// RUN: tiduc run %t.vmfb --input 2 --input 3 --input 1 | filecheck %s --check-prefix=VJP
// RUN: cat %t.vmfb | tiduc run - --input 2 --input 3 --input 1 -o %t.npz
// RUN: tiduc run %t.vmfb --input 2 --input 3 --input @%t.npz:result0 | filecheck %s --check-prefix=NPZ
// RUN: tiduc run %t.vmfb --input random --seed 3 | filecheck %s --check-prefix=RANDOM
// RUN: not tiduc run %t.vmfb --input 2 --input 3 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not tiduc run %t.vmfb --input 2 --input 4xf64=3 --input 1 2>&1 | filecheck %s --check-prefix=SHAPE
// RUN: not tiduc run %t.vmfb --entry g 2>&1 | filecheck %s --check-prefix=ENTRY
// RUN: not tiduc run %t.vmfb --input @%t.none.npy 2>&1 | filecheck %s --check-prefix=MISSING

// CHECK:       {{^}}result0: f64=403.428793492
// VJP:         result0: f64=403.428793492
// VJP-NEXT:    a.cotangent: f64=1210.28638047
// VJP-NEXT:    x.cotangent: f64=806.85758698
// NPZ:         a.cotangent: f64=488264.3
// RANDOM:      x.cotangent: f64=
// COUNT:       error: main takes 3 arguments (a: f64, x: f64, result0.cotangent: f64), got 2
// SHAPE:       error: argument 1 (x): expected f64, got 4xf64
// ENTRY:       run.mlir.tmp.vmfb: error: no function 'g' in the module; it has: main
// MISSING:     error: cannot read: No such file
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
