// RUN: tiduc ops | filecheck %s --check-prefix=OPS
// RUN: tiduc ops --markdown | filecheck %s --check-prefix=PAGE
// RUN: tiduc passes | filecheck %s --check-prefix=PASSES
// RUN: tiduc dialect | filecheck %s --check-prefix=DIALECT
// RUN: tiduc --help | filecheck %s --check-prefix=HELP
// RUN: tiduc jvp --help | filecheck %s --check-prefix=JVP

// OPS:     stablehlo.exponential {{ *}}elementwise{{ *}}yes
// PAGE:    | `stablehlo.exponential` | elementwise | yes |
// PASSES:  tidu-linearize
// PASSES:  wrt=<names>
// DIALECT: ## `tidu.external`
// DIALECT: | `ref` | attribute |
// HELP:    Differentiate:
// HELP:    jvp
// JVP:     --wrt INPUTS
