// Molecular dynamics in C with the potential of examples/potential.py: velocity Verlet with periodic boundaries.
//
//   python examples/potential.py --save potential.mlir
//   tiduc compile potential.mlir --target x86_64 --emit static-library -o potential.o
//   cc -std=c11 -O2 -I. -include examples/on_device/workspace.h -DTIDUC_KEPT=INT64_MAX examples/on_device/md.c
//     potential.c potential.o -lm -pthread -o md && ./md
//
// Each step gives the neighbour list to the library, which computes energy, forces and virial. Steps allocate nothing:
// the library's memory is a workspace of the thread. Two threads simulate two systems at once.

#include "potential.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATOMS = 64, EDGES = 2048, CELLS = 4, STEPS = 100 };

static const double CUTOFF = 4.0, FAR = 40.0, TIME = 0.01, LENGTH = 2.5 * CELLS;  // eV, angstrom; the mass is 1

typedef struct {
  double strain[3][3], positions[ATOMS][3], velocities[ATOMS][3], shifts[EDGES][3];
  int64_t species[ATOMS], edges[2][EDGES];
  int count;
  double energy, forces[ATOMS][3], virial[3][3];
} md_system;

_Thread_local md_workspace *md_memory;  // declared in workspace.h, which the library uses

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

static int evaluate(md_system *s) {
  const double seed = -1;  // forces and virial are -dE/dx and -dE/dstrain
  return potential(s->strain[0], s->positions[0], s->species, s->edges[0], s->shifts[0], &seed, &s->energy, s->forces[0],
                   s->virial[0]);
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

static int simulate(md_system *s, int steps) {
  if (list_neighbours(s) < 0) return -1;
  int status = evaluate(s);
  for (int step = 0; step < steps && !status; step++) {
    for (int i = 0; i < ATOMS; i++)
      for (int k = 0; k < 3; k++) {
        s->velocities[i][k] += 0.5 * TIME * s->forces[i][k];
        s->positions[i][k] += TIME * s->velocities[i][k];
      }
    if (list_neighbours(s) < 0) return -1;
    status = evaluate(s);
    for (int i = 0; i < ATOMS; i++)
      for (int k = 0; k < 3; k++) s->velocities[i][k] += 0.5 * TIME * s->forces[i][k];
  }
  return status;
}

typedef struct {
  md_system *system;
  int status;
} md_run;

// One thread: a system and its memory. The workspace is 64 bytes larger for each block that the library takes.
static void *run(void *of) {
  md_run *r = of;
  r->status = md_reserve(&md_memory, POTENTIAL_HEAP_BYTES + 4096);
  if (!r->status) r->status = simulate(r->system, STEPS);
  md_release(&md_memory);
  return NULL;
}

int main(void) {
  static md_system alone[2], together[2];
  start(&alone[0], 1);
  if (simulate(&alone[0], 0)) return 1;  // the first call, before any thread: the library computes its constants

  // The virial against the energy of a strained system, by central differences.
  md_system *s = &alone[0];
  const double virial = s->virial[0][1], h = 1e-5;
  double energies[2];
  for (int side = 0; side < 2; side++) {
    s->strain[0][1] = s->strain[1][0] = side ? h : -h;
    if (evaluate(s)) return 1;
    energies[side] = s->energy;
  }
  const double difference = -(energies[1] - energies[0]) / (4 * h);
  printf("%d edges, the virial agrees with differences: %d\n", s->count, fabs(virial - difference) < 1e-6);

  pthread_t threads[2];
  md_run runs[2];
  for (int i = 0; i < 2; i++) {
    start(&together[i], 1 + i), start(&alone[i], 1 + i);
    runs[i] = (md_run){&together[i], 0};
    if (pthread_create(&threads[i], NULL, run, &runs[i])) return 1;
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    if (runs[i].status || simulate(&alone[i], 0)) return 1;
    const double before = alone[i].energy + kinetic(&alone[i]), after = together[i].energy + kinetic(&together[i]);
    printf("system %d: energy %.3f, then %.3f eV, of which kinetic %.3f\n", i, before, after, kinetic(&together[i]));
    start(&alone[i], 1 + i);
    md_run again = {&alone[i], 0};
    run(&again);
    if (again.status) return 1;
  }
  printf("two threads at once give the numbers of one: %d\n", !memcmp(alone, together, sizeof alone));
  return 0;
}
