// The problem of examples/optimal_control.py through CasADi's C interface for external functions, which acados reads, too.
//
//   python examples/optimal_control.py --save kkt.mlir
//   tiduc compile kkt.mlir --target x86_64 --emit static-library -o kkt.o
//   cc -std=c11 -O2 -shared -fPIC -I. examples/on_device/casadi.c kkt.c kkt.o -lm -o kkt.so
//   python examples/optimal_control.py --casadi ./kkt.so
//
// problem      z -> cost, gap
// jac_problem  z, cost, gap -> the Jacobians of cost and gap
// hess_lag     z, parameters, multiplier of the cost, multipliers of the gap -> the upper triangle of the Hessian
//
// Matrices are in CasADi's compressed column form. CasADi gives each call the memory w for all results of kkt.

#include "kkt.h"
#include <stddef.h>

typedef long long casadi_int;

enum {
  N = kkt_gap_jacobian_z_columns,
  M = kkt_gap_jacobian_z_rows,
  COSTS = kkt_cost_jacobian_z_nonzeros,
  GAPS = kkt_gap_jacobian_z_nonzeros,
  SECOND = kkt_lagrangian_hessian_z_z_nonzeros,
  GAP = 1,
  OF_COST = GAP + M,
  OF_GAP = OF_COST + COSTS,
  HESSIAN = OF_GAP + GAPS,
  ZEROS = HESSIAN + SECOND,
  WORK = ZEROS + (N > M ? N : M),
};

// A matrix in column form: sizes, column starts and rows for CasADi, and for each nonzero its place in kkt's result.
typedef struct {
  casadi_int pattern[2 + N + 1 + (SECOND > GAPS ? SECOND : GAPS)];
  int places[SECOND > GAPS ? SECOND : GAPS];
} Columns;

static Columns of_cost, of_gap, of_hessian;
static const casadi_int one_by_one[] = {1, 1, 1}, n_by_one[] = {N, 1, 1}, m_by_one[] = {M, 1, 1}, none[] = {0, 0, 1};

// Writes a matrix, whose rows are given, in column form; only its upper triangle if `upper` is set.
static void turn(Columns *to, int rows, const int32_t *starts, const int32_t *columns, int upper) {
  casadi_int *column_starts = to->pattern + 2, *row_of = column_starts + N + 1, count = 0;
  to->pattern[0] = rows;
  to->pattern[1] = N;
  for (int j = 0; j < N; j++) {
    column_starts[j] = count;
    for (int i = 0; i < rows; i++)
      for (int k = starts[i]; k < starts[i + 1]; k++)
        if (columns[k] == j && (!upper || i <= j)) {
          row_of[count] = i;
          to->places[count++] = k;
        }
  }
  column_starts[N] = count;
}

// CasADi calls these functions when it loads the library, before it asks for patterns, and when it closes the library.
void jac_problem_decref(void) {}
void hess_lag_decref(void) {}

void jac_problem_incref(void) {
  turn(&of_cost, 1, kkt_cost_jacobian_z_indptr, kkt_cost_jacobian_z_indices, 0);
  turn(&of_gap, M, kkt_gap_jacobian_z_indptr, kkt_gap_jacobian_z_indices, 0);
}

void hess_lag_incref(void) {
  turn(&of_hessian, N, kkt_lagrangian_hessian_z_z_indptr, kkt_lagrangian_hessian_z_z_indices, 1);
}

// Computes all results in w. CasADi passes NULL for an argument that is zero.
static int evaluate(const double *z, const double *cost, const double *gap, double *w) {
  double *const zeros = w + ZEROS;
  for (int i = 0; i < WORK - ZEROS; i++) zeros[i] = 0;
  const double *const given = cost ? cost : zeros;
  return kkt(z ? z : zeros, given, gap ? gap : zeros, w, w + GAP, w + OF_COST, w + OF_GAP, w + HESSIAN);
}

// Copies the nonzeros of a matrix. CasADi passes NULL for a result that it does not need.
static void store(double *to, const double *from, const Columns *matrix) {
  if (!to) return;
  for (int k = 0; k < matrix->pattern[2 + N]; k++) to[k] = from[matrix->places[k]];
}

static int work(casadi_int *arguments, casadi_int *results, casadi_int *integers, casadi_int *doubles) {
  if (arguments) *arguments = 4;
  if (results) *results = 2;
  if (integers) *integers = 0;
  if (doubles) *doubles = WORK;
  return 0;
}

casadi_int problem_n_in(void) { return 1; }
casadi_int problem_n_out(void) { return 2; }
const casadi_int *problem_sparsity_in(casadi_int i) { return i ? NULL : n_by_one; }
const casadi_int *problem_sparsity_out(casadi_int i) { return i ? m_by_one : one_by_one; }
int problem_work(casadi_int *a, casadi_int *r, casadi_int *i, casadi_int *w) { return work(a, r, i, w); }

int problem(const double **arguments, double **results, casadi_int *integers, double *w, int memory) {
  (void)integers, (void)memory;
  const int status = evaluate(arguments[0], NULL, NULL, w);
  if (results[0]) *results[0] = w[0];
  if (results[1])
    for (int i = 0; i < M; i++) results[1][i] = w[GAP + i];
  return status;
}

casadi_int jac_problem_n_in(void) { return 3; }
casadi_int jac_problem_n_out(void) { return 2; }
const casadi_int *jac_problem_sparsity_in(casadi_int i) {
  return i == 0 ? n_by_one : i == 1 ? one_by_one : m_by_one;
}
const casadi_int *jac_problem_sparsity_out(casadi_int i) { return i ? of_gap.pattern : of_cost.pattern; }
int jac_problem_work(casadi_int *a, casadi_int *r, casadi_int *i, casadi_int *w) { return work(a, r, i, w); }

int jac_problem(const double **arguments, double **results, casadi_int *integers, double *w, int memory) {
  (void)integers, (void)memory;
  const int status = evaluate(arguments[0], NULL, NULL, w);
  store(results[0], w + OF_COST, &of_cost);
  store(results[1], w + OF_GAP, &of_gap);
  return status;
}

casadi_int hess_lag_n_in(void) { return 4; }
casadi_int hess_lag_n_out(void) { return 1; }
const casadi_int *hess_lag_sparsity_in(casadi_int i) {
  return i == 0 ? n_by_one : i == 1 ? none : i == 2 ? one_by_one : m_by_one;
}
const casadi_int *hess_lag_sparsity_out(casadi_int i) { return i ? NULL : of_hessian.pattern; }
int hess_lag_work(casadi_int *a, casadi_int *r, casadi_int *i, casadi_int *w) { return work(a, r, i, w); }

int hess_lag(const double **arguments, double **results, casadi_int *integers, double *w, int memory) {
  (void)integers, (void)memory;
  const int status = evaluate(arguments[0], arguments[2], arguments[3], w);
  store(results[0], w + HESSIAN, &of_hessian);
  return status;
}
