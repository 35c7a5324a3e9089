// Memory for a static library's calls, as `cc -include workspace.h`: a block that each thread reserves once.
//
// While a thread has no workspace, its calls use malloc: the first call, which computes constants, is made so.

#ifndef MD_WORKSPACE_H
#define MD_WORKSPACE_H
#include <stddef.h>
#include <stdlib.h>

typedef struct {
  size_t room, used, live;  // bytes, bytes, blocks
  unsigned char *bytes;
} md_workspace;

extern _Thread_local md_workspace *md_memory;

static inline int md_reserve(md_workspace **to, size_t room) {
  md_workspace *w = malloc(sizeof *w);
  if (!w || !(w->bytes = malloc(room))) return free(w), 1;
  w->room = room, w->used = w->live = 0;
  return *to = w, 0;
}

static inline void md_release(md_workspace **to) {
  if (*to) free((*to)->bytes);
  free(*to), *to = NULL;
}

static inline void *md_take(size_t size) {
  md_workspace *w = md_memory;
  if (!w) return malloc(size);
  size = (size + 63) & ~(size_t)63;
  if (size > w->room - w->used) return NULL;  // the library returns the status 1
  void *block = w->bytes + w->used;
  return w->used += size, w->live++, block;
}

static inline void md_give(void *block) {
  md_workspace *w = md_memory;
  if (!w) free(block);
  else if (--w->live == 0) w->used = 0;  // a call has ended
}

#define TIDUC_MALLOC md_take
#define TIDUC_FREE md_give
#endif
