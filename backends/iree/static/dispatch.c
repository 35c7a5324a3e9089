static tiduc_kernel tiduc_kernels[sizeof tiduc_names / sizeof *tiduc_names];
static uint16_t tiduc_pages[sizeof tiduc_names / sizeof *tiduc_names];
static const tiduc_environment tiduc_here;

// Finds the kernels by name in the object file.
static int tiduc_link(void) {
  const tiduc_library *library = (const tiduc_library *)TIDUC_QUERY(6, &tiduc_here);
  if (!library || library->header->version != 6 || library->imports.count) return TIDUC_FAILED;
  for (size_t i = 0; i < sizeof tiduc_names / sizeof *tiduc_names; i++) {
    for (uint32_t j = 0; j < library->exports.count && !tiduc_kernels[i]; j++) {
      if (strcmp(tiduc_names[i], library->exports.names[j])) continue;
      tiduc_kernels[i] = library->exports.kernels[j];
      tiduc_pages[i] = library->exports.attributes ? library->exports.attributes[j].local_memory_pages : 0;
    }
    if (!tiduc_kernels[i]) return TIDUC_FAILED;
  }
  return 0;
}

// Runs all workgroups of a kernel, one after the other.
static int tiduc_dispatch(tiduc_pool *pool, int kernel, const uint32_t count[3], const uint32_t *constants,
                          int constant_count, void *const *bindings, const size_t *lengths, int binding_count) {
  tiduc_dispatch_state state = {1, 1, 1, (uint16_t)constant_count, count[0], count[1], (uint16_t)count[2],
                                1, (uint8_t)binding_count, constants, bindings, lengths};
  tiduc_workgroup group = {0};
  group.local_memory_size = (uint32_t)tiduc_pages[kernel] * 4096u;
  tiduc_buffer local = {NULL, 0};
  int status = group.local_memory_size ? tiduc_allocate(pool, (int64_t)group.local_memory_size, &local) : 0;
  group.local_memory = local.data;
  for (uint32_t z = 0; z < count[2]; z++)
    for (uint32_t y = 0; y < count[1]; y++)
      for (uint32_t x = 0; x < count[0] && !status; x++) {
        group.x = x, group.y = y, group.z = (uint16_t)z;
        if (tiduc_kernels[kernel](&tiduc_here, &state, &group)) status = TIDUC_FAILED;
      }
  if (local.data) tiduc_drop(pool, local.data);
  return status;
}
