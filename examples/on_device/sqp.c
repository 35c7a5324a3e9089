// A small SQP method in C for the problem of examples/optimal_control.py; kkt.o has the problem's derivatives.
//
//   python examples/optimal_control.py --save kkt.mlir
//   tiduc compile kkt.mlir --target x86_64 --emit static-library -o kkt.o
//   cc -std=c11 -O2 -I. examples/on_device/sqp.c kkt.c kkt.o -lm -o sqp && ./sqp
//
// Each iteration solves [H J'; J 0] [d; y] = -[g; c], where y are the new multipliers, and searches along d for a step
// that lowers the merit function, cost + penalty * sum of |c|.

#include "kkt.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  N = kkt_gap_jacobian_z_columns,
  M = kkt_gap_jacobian_z_rows,
  SIZE = N + M,
};

static double cost, gradient[kkt_cost_jacobian_z_nonzeros], gap[M];
static double jacobian[kkt_gap_jacobian_z_nonzeros], hessian[kkt_lagrangian_hessian_z_z_nonzeros];
static double matrix[SIZE][SIZE], right[SIZE];

static int evaluate(const double *z, const double *multipliers) {
  const double one = 1;
  return kkt(z, &one, multipliers, &cost, gap, gradient, jacobian, hessian);
}

static double merit(double penalty) {
  double sum = cost;
  for (int i = 0; i < M; i++) sum += penalty * fabs(gap[i]);
  return sum;
}

// Writes the KKT matrix, with `shift` added to the diagonal of the Hessian, and the right-hand side.
static void assemble(double shift) {
  memset(matrix, 0, sizeof matrix);
  memset(right, 0, sizeof right);
  for (int i = 0; i < N; i++) {
    matrix[i][i] = shift;
    for (int k = kkt_lagrangian_hessian_z_z_indptr[i]; k < kkt_lagrangian_hessian_z_z_indptr[i + 1]; k++)
      matrix[i][kkt_lagrangian_hessian_z_z_indices[k]] += hessian[k];
  }
  for (int i = 0; i < M; i++) {
    right[N + i] = -gap[i];
    for (int k = kkt_gap_jacobian_z_indptr[i]; k < kkt_gap_jacobian_z_indptr[i + 1]; k++) {
      const int j = kkt_gap_jacobian_z_indices[k];
      matrix[N + i][j] = matrix[j][N + i] = jacobian[k];
    }
  }
  for (int k = 0; k < kkt_cost_jacobian_z_nonzeros; k++) right[kkt_cost_jacobian_z_indices[k]] = -gradient[k];
}

// Solves matrix * x = right in place, by Gaussian elimination with pivots. Returns 0 if the matrix is singular.
static int solve(void) {
  for (int j = 0; j < SIZE; j++) {
    int pivot = j;
    for (int i = j + 1; i < SIZE; i++)
      if (fabs(matrix[i][j]) > fabs(matrix[pivot][j])) pivot = i;
    if (fabs(matrix[pivot][j]) < 1e-14) return 0;
    for (int k = 0; k < SIZE; k++) {
      const double held = matrix[j][k];
      matrix[j][k] = matrix[pivot][k];
      matrix[pivot][k] = held;
    }
    const double held = right[j];
    right[j] = right[pivot];
    right[pivot] = held;
    for (int i = j + 1; i < SIZE; i++) {
      const double factor = matrix[i][j] / matrix[j][j];
      for (int k = j; k < SIZE; k++) matrix[i][k] -= factor * matrix[j][k];
      right[i] -= factor * right[j];
    }
  }
  for (int i = SIZE - 1; i >= 0; i--) {
    for (int k = i + 1; k < SIZE; k++) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  return 1;
}

// d' (H + shift) d for the direction d in `right`.
static double curvature(double shift) {
  double sum = 0;
  for (int i = 0; i < N; i++) {
    sum += shift * right[i] * right[i];
    for (int k = kkt_lagrangian_hessian_z_z_indptr[i]; k < kkt_lagrangian_hessian_z_z_indptr[i + 1]; k++)
      sum += right[i] * hessian[k] * right[kkt_lagrangian_hessian_z_z_indices[k]];
  }
  return sum;
}

int main(void) {
  double z[N] = {0}, next[N], multipliers[M] = {0};
  for (int i = 0; i < N; i += 3) z[i] = 3.14159265358979323846 * i / (N - 3);
  for (int iteration = 0; iteration < 100; iteration++) {
    if (evaluate(z, multipliers)) return 1;
    double shift = 0;
    for (;; shift = shift ? 4 * shift : 1e-4) {
      assemble(shift);
      if (solve() && curvature(shift) > 0) break;
      if (shift > 1e6) return 2;
    }
    double length = 0, most = 0, penalty = 1;
    for (int i = 0; i < N; i++) length = fmax(length, fabs(right[i]));
    for (int i = 0; i < M; i++) most = fmax(most, fabs(gap[i]));
    for (int i = 0; i < M; i++) penalty = fmax(penalty, 2 * fabs(right[N + i]));
    if (length < 1e-9 && most < 1e-9) {
      printf("cost %.6f, largest gap %.0e, %d iterations\n", cost, most, iteration);
      return 0;
    }
    const double before = merit(penalty);
    double step = 1;
    for (;; step /= 2) {
      for (int i = 0; i < N; i++) next[i] = z[i] + step * right[i];
      if (evaluate(next, multipliers)) return 1;
      if (merit(penalty) < before || step < 1e-6) break;
    }
    memcpy(z, next, sizeof z);
    memcpy(multipliers, right + N, sizeof multipliers);
  }
  return 3;
}
