// Molecular dynamics in C with the potential of examples/potential.py: velocity Verlet with periodic boundaries.
//
//   python examples/potential.py --save potential.mlir
//   tiduc compile potential.mlir --target x86_64 --emit static-library -o potential.o
//   cc -std=c11 -O2 -I. examples/on_device/md.c potential.c potential.o -lm -pthread -o md && ./md
//
// Each step gives the neighbour list to the library, which computes energy, forces and virial. Steps allocate nothing:
// the library works in a buffer of the caller. Two threads simulate two systems at once, each with its own buffer.

#include "potential.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ATOMS = 64, EDGES = 2048, CELLS = 4, STEPS = 100 };

static const double CUTOFF = 4.0, FAR = 40.0, TIME = 0.01, LENGTH = 2.5 * CELLS;  // eV, angstrom; the mass is 1

typedef struct {
  double strain[3][3], positions[ATOMS][3], velocities[ATOMS][3], shifts[EDGES][3];
  int64_t species[ATOMS], edges[2][EDGES];
  int count;
  double energy, forces[ATOMS][3], virial[3][3];
} md_system;

typedef struct {
  _Alignas(64) unsigned char bytes[POTENTIAL_HEAP_BYTES];
} md_memory;  // the library's memory in a call

// Writes all pairs closer than the cutoff, each twice. Returns their number, or -1 if there are more than EDGES.
static int list_neighbours(md_system *s) {
  int count = 0;
  for (int i = 0; i < ATOMS; i++)
    for (int j = 0; j < ATOMS; j++) {
      double shift[3], square = 0;
      for (int k = 0; k < 3; k++) {
        double d = s->positions[j][k] - s->positions[i][k];
        shift[k] = -LENGTH * round(d / LENGTH);
        square += (d + shift[k]) * (d + shift[k]);
      }
      if (i == j || square >= CUTOFF * CUTOFF) continue;
      if (count == EDGES) return -1;
      s->edges[0][count] = i, s->edges[1][count] = j;
      memcpy(s->shifts[count++], shift, sizeof shift);
    }
  for (int e = count; e < EDGES; e++) {  // the other edges are longer than the cutoff
    s->edges[0][e] = s->edges[1][e] = 0;
    s->shifts[e][0] = s->shifts[e][1] = s->shifts[e][2] = FAR;
  }
  return s->count = count;
}

// Computes energy, forces and virial. The seed -1 makes them -dE/dx and -dE/dstrain. Returns the library's status.
static int evaluate(md_system *s, md_memory *memory) {
  const double seed = -1;
  return potential_call_in(memory->bytes, sizeof memory->bytes, s->strain[0], s->positions[0], s->species, s->edges[0],
                           s->shifts[0], &seed, &s->energy, s->forces[0], s->virial[0]);
}

static void start(md_system *s, unsigned seed) {
  memset(s, 0, sizeof *s);
  for (int i = 0; i < ATOMS; i++) {
    const int cell[3] = {i / (CELLS * CELLS), i / CELLS % CELLS, i % CELLS};
    s->species[i] = 1 + i % 3;
    for (int k = 0; k < 3; k++) {
      seed = seed * 1664525u + 1013904223u;
      s->positions[i][k] = 2.5 * cell[k];
      s->velocities[i][k] = (seed >> 8) / 16777216.0 - 0.5;
    }
  }
}

static double kinetic(const md_system *s) {
  double sum = 0;
  for (int i = 0; i < ATOMS; i++)
    for (int k = 0; k < 3; k++) sum += 0.5 * s->velocities[i][k] * s->velocities[i][k];
  return sum;
}

static int simulate(md_system *s, int steps, md_memory *memory) {
  if (list_neighbours(s) < 0) return -1;
  int status = evaluate(s, memory);
  for (int step = 0; step < steps && !status; step++) {
    for (int i = 0; i < ATOMS; i++)
      for (int k = 0; k < 3; k++) {
        s->velocities[i][k] += 0.5 * TIME * s->forces[i][k];
        s->positions[i][k] += TIME * s->velocities[i][k];
      }
    if (list_neighbours(s) < 0) return -1;
    status = evaluate(s, memory);
    for (int i = 0; i < ATOMS; i++)
      for (int k = 0; k < 3; k++) s->velocities[i][k] += 0.5 * TIME * s->forces[i][k];
  }
  return status;
}

// Writes the slope of the energy along one number of the system, by a central difference. Returns the status.
static int slope(md_system *s, double *at, double *result, md_memory *memory) {
  const double h = 1e-5, centre = *at;
  double energies[2];
  for (int side = 0; side < 2; side++) {
    *at = centre + (side ? h : -h);
    int status = evaluate(s, memory);
    if (status) return status;
    energies[side] = s->energy;
  }
  *at = centre;
  *result = (energies[1] - energies[0]) / (2 * h);
  return 0;
}

// Gives the largest difference between minus the slopes of the energy and the library's forces and virial, or -1.
static double worst_slope(md_system *s, md_memory *memory) {
  double worst = 0, found = 0, forces[ATOMS][3], virial[3][3];
  memcpy(forces, s->forces, sizeof forces), memcpy(virial, s->virial, sizeof virial);
  for (int k = 0; k < 3 * ATOMS; k++) {
    if (slope(s, &s->positions[k / 3][k % 3], &found, memory)) return -1;
    worst = fmax(worst, fabs(found + forces[k / 3][k % 3]));
  }
  for (int k = 0; k < 9; k++) {
    if (slope(s, &s->strain[k / 3][k % 3], &found, memory)) return -1;
    worst = fmax(worst, fabs(found + virial[k / 3][k % 3]));
  }
  return worst;
}

typedef struct {
  md_system *system;
  md_memory *memory;
  int status;
} md_run;

static void *run(void *of) {
  md_run *r = of;
  r->status = simulate(r->system, STEPS, r->memory);
  return NULL;
}

int main(void) {
  static md_system alone[2], together[2];
  static md_memory memory[2];
  start(&alone[0], 1);
  // The first call computes the library's constants: it returns before other threads call.
  if (simulate(&alone[0], 3, &memory[0])) return 1;
  const double worst = worst_slope(&alone[0], &memory[0]);
  printf("%d edges, forces and virial agree with differences: %d\n", alone[0].count, 0 <= worst && worst < 1e-6);

  pthread_t threads[2];
  md_run runs[2];
  for (int i = 0; i < 2; i++) {
    start(&together[i], 1 + i);
    runs[i] = (md_run){&together[i], &memory[i], 0};
    if (pthread_create(&threads[i], NULL, run, &runs[i])) return 1;
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    start(&alone[i], 1 + i);
    if (runs[i].status || simulate(&alone[i], 0, &memory[0])) return 1;
    const double before = alone[i].energy + kinetic(&alone[i]), after = together[i].energy + kinetic(&together[i]);
    printf("system %d: energy %.3f, then %.3f eV, of which kinetic %.3f\n", i, before, after, kinetic(&together[i]));
    start(&alone[i], 1 + i);
    if (simulate(&alone[i], STEPS, &memory[0])) return 1;
  }
  printf("two threads at once give the numbers of one: %d\n", !memcmp(alone, together, sizeof alone));
  return 0;
}
