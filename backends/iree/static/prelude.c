// Memory of one call, or of the constants: blocks in a list, aligned for vector instructions. If `memory` is not NULL,
// the blocks are in these `room` bytes, in the order of their addresses; else they come from malloc.
typedef struct tiduc_block {
  struct tiduc_block *next;
  unsigned char *data;
  int64_t size, room;
} tiduc_block;
typedef struct {
  tiduc_block *first;
  unsigned char *memory;
  size_t room;
} tiduc_pool;
typedef struct { unsigned char *data; int64_t size; } tiduc_buffer;
enum { TIDUC_ALIGNMENT = 64 };

#ifndef TIDUC_MALLOC
#include <stdlib.h>
#define TIDUC_MALLOC malloc
#define TIDUC_FREE free
#endif

// A program may call only some of the functions below: clang would warn about the unused functions.
#ifdef __GNUC__
#define TIDUC_LOCAL static inline __attribute__((unused))
#else
#define TIDUC_LOCAL static inline
#endif

// Up to four blocks of at least TIDUC_KEPT bytes stay allocated for the next call. C libraries return blocks of this
// size to the system, and the next call would wait for each page. INT64_MAX keeps none.
#ifndef TIDUC_KEPT
#define TIDUC_KEPT (1 << 20)
#endif
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(__STDC_NO_ATOMICS__)
#include <stdatomic.h>
enum { TIDUC_SPARES = 4 };
static _Atomic(tiduc_block *) tiduc_spares[TIDUC_SPARES];
#define TIDUC_EXCHANGE(i, block) atomic_exchange(&tiduc_spares[i], (block))
#else
enum { TIDUC_SPARES = 0 };
#define TIDUC_EXCHANGE(i, block) (block)
#endif

TIDUC_LOCAL void tiduc_release(tiduc_block *block) {
  int count = block->room >= TIDUC_KEPT ? TIDUC_SPARES : 0;
  for (int i = 0; i < count && block; i++) block = TIDUC_EXCHANGE(i, block);
  if (block) TIDUC_FREE(block);
}

TIDUC_LOCAL tiduc_block *tiduc_obtain(int64_t size) {
  int count = size >= TIDUC_KEPT ? TIDUC_SPARES : 0;
  for (int i = 0; i < count; i++) {
    tiduc_block *spare = TIDUC_EXCHANGE(i, (tiduc_block *)NULL);
    if (spare && spare->room >= size) return spare;
    if (spare) tiduc_release(spare);
  }
  tiduc_block *block = (tiduc_block *)TIDUC_MALLOC(sizeof(tiduc_block) + (size_t)size + TIDUC_ALIGNMENT);
  if (block) block->room = size;
  return block;
}

TIDUC_LOCAL uintptr_t tiduc_aligned_after(uintptr_t start) {
  return (start + sizeof(tiduc_block) + TIDUC_ALIGNMENT - 1) & ~(uintptr_t)(TIDUC_ALIGNMENT - 1);
}

// Finds the first gap between the blocks in the pool's memory. `at` becomes the place of the new block in the list.
TIDUC_LOCAL tiduc_block *tiduc_gap(const tiduc_pool *pool, int64_t size, tiduc_block ***at) {
  uintptr_t data = tiduc_aligned_after((uintptr_t)pool->memory), end = (uintptr_t)pool->memory + pool->room;
  while (**at) {
    const uintptr_t next = (uintptr_t)**at;
    if (data <= next && (uint64_t)size <= next - data) break;
    data = tiduc_aligned_after((uintptr_t)((**at)->data + (**at)->size));
    *at = &(**at)->next;
  }
  if (**at == NULL && (data > end || (uint64_t)size > end - data)) return NULL;
  return (tiduc_block *)(pool->memory + (data - (uintptr_t)pool->memory)) - 1;
}

TIDUC_LOCAL int tiduc_allocate(tiduc_pool *pool, int64_t size, tiduc_buffer *result) {
  if ((uint64_t)size > SIZE_MAX - sizeof(tiduc_block) - TIDUC_ALIGNMENT) return TIDUC_NO_MEMORY;
  tiduc_block **at = &pool->first, *block = pool->memory ? tiduc_gap(pool, size, &at) : tiduc_obtain(size);
  if (!block) return TIDUC_NO_MEMORY;
  block->data = (unsigned char *)block + (tiduc_aligned_after((uintptr_t)block) - (uintptr_t)block);
  block->size = size;
  block->next = *at;
  *at = block;
  *result = (tiduc_buffer){block->data, size};
  return 0;
}

// A buffer with these bytes: the argument's own memory if it is aligned, else a copy.
TIDUC_LOCAL int tiduc_aligned(tiduc_pool *pool, unsigned char *data, int64_t size, tiduc_buffer *result) {
  if ((uintptr_t)data % TIDUC_ALIGNMENT == 0) {
    *result = (tiduc_buffer){data, size};
    return 0;
  }
  int status = tiduc_allocate(pool, size, result);
  if (!status) memcpy(result->data, data, (size_t)size);
  return status;
}

// Frees the blocks to which none of the live buffers points.
TIDUC_LOCAL void tiduc_collect(tiduc_pool *pool, const tiduc_buffer *live, int count) {
  for (tiduc_block **at = &pool->first; *at;) {
    tiduc_block *block = *at;
    int used = 0;
    for (int i = 0; i < count && !used; i++)
      used = live[i].data >= block->data && live[i].data <= block->data + block->size;
    if (used) {
      at = &block->next;
    } else {
      *at = block->next;
      if (!pool->memory) tiduc_release(block);
    }
  }
}

// Frees the block of one buffer.
TIDUC_LOCAL void tiduc_drop(tiduc_pool *pool, const unsigned char *data) {
  tiduc_block **at = &pool->first;
  while (*at && (*at)->data != data) at = &(*at)->next;
  tiduc_block *block = *at;
  if (!block) return;
  *at = block->next;
  if (!pool->memory) tiduc_release(block);
}

TIDUC_LOCAL void tiduc_fill(unsigned char *data, int64_t length, const void *value, size_t width) {
  for (int64_t i = 0; i < length; i += (int64_t)width) memcpy(data + i, value, width);
}
