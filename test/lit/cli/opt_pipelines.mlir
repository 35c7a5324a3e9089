// RUN: tiduc opt %s --tidu-jvp | filecheck %s --check-prefix=JVP
// RUN: tiduc opt %s --pass-pipeline='tidu-vjp{wrt=x loop-memory=log},cse' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=VJP
// RUN: tiduc opt %s --tidu-grad=wrt=x | filecheck %s --check-prefix=GRAD
// RUN: tiduc opt %s --tidu-grad='wrt=x primal-outputs' | filecheck %s --check-prefix=VALUE
// RUN: not tiduc opt %s --pass-pipeline=tidu-gard 2>&1 | filecheck %s --check-prefix=SUGGESTED
// RUN: not tiduc opt %s --tidu-grad=size=3 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not tiduc opt %s --cse --pass-pipeline=cse 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not tiduc opt %s --no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: tiduc opt %s -stablehlo-aggressive-simplification -cse -dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=NATIVE

// Named pipelines, and single passes as flags with one dash or two.

// JVP:       func.func @main(%arg0: tensor<f64> {{.*}}, %arg1: tensor<f64> {{.*}}, %arg2: tensor<f64> {{.*}}, %arg3
// JVP:       return {{%[0-9]+}}, {{%[0-9]+}} :
// VJP:       Pass Manager with 7 passes:
// VJP-NEXT:  builtin.module(tidu-import,tidu-linearize{wrt=x},tidu-linear-transpose,tidu-materialize-merge,tidu-structure{loop-memory=log},tidu-lower,cse)
// GRAD:      func.func @main(%arg0: tensor<f64> {{.*}}, %arg1: tensor<f64> {tidu.name = "x"}) -> tensor<f64>
// GRAD-NEXT: stablehlo.multiply %arg0, %arg1
// GRAD-NEXT: stablehlo.exponential
// GRAD-NEXT: stablehlo.multiply
// GRAD-NEXT: return
// VALUE:     -> (tensor<f64>, tensor<f64>)
// SUGGESTED: unknown pass 'tidu-gard'; did you mean 'tidu-grad'?
// OPTION:    no option 'size' in 'tidu-grad'; there are: 'inline', 'relu', 'wrt', 'primal-outputs', 'loop-memory'
// BOTH:      Error: --pass-pipeline cannot be used with flags that name passes
// UNKNOWN:   No such option{{:? '?}}--no-such-pass
// NATIVE:    builtin.module(func.func(stablehlo-aggressive-simplification{fold-op-element-limit=65536}),cse)
func.func @main(%a: tensor<f64>, %x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
