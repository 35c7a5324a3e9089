static const tiduc_environment tiduc_here;

static bool tiduc_overlap(const void *x, size_t m, const void *y, size_t n) {
  const uintptr_t a = (uintptr_t)x, b = (uintptr_t)y;
  return a < b + n && b < a + m;
}

// Calls the kernel. Arguments that overlap a result are copied first, since the kernel reads them after it has written
// results.
static int tiduc_run(const void *const *arguments, void *const *results) {
  static const size_t taken[] = TIDUC_TAKEN, given[] = TIDUC_GIVEN;
  union {
    double number;
    unsigned char bytes[TIDUC_BYTES];
  } copies;
  const tiduc_library *library = (const tiduc_library *)TIDUC_QUERY(6, &tiduc_here);
  void *bindings[TIDUC_ARGUMENTS + TIDUC_RESULTS];
  size_t lengths[TIDUC_ARGUMENTS + TIDUC_RESULTS], at = 0;
  if (!library || library->header->version != 6 || library->imports.count) return TIDUC_FAILED;
  for (int j = 0; j < TIDUC_RESULTS; j++) {
    bindings[TIDUC_ARGUMENTS + j] = results[j];
    lengths[TIDUC_ARGUMENTS + j] = given[j];
  }
  for (int i = 0; i < TIDUC_ARGUMENTS; i++) {
    bool overlaps = false;
    for (int j = 0; j < TIDUC_RESULTS; j++)
      overlaps = overlaps || tiduc_overlap(arguments[i], taken[i], results[j], given[j]);
    if (overlaps) memcpy(copies.bytes + at, arguments[i], taken[i]);
    bindings[i] = overlaps ? copies.bytes + at : (unsigned char *)(uintptr_t)arguments[i];
    lengths[i] = taken[i];
    at += (taken[i] + 7) / 8 * 8;
  }
  const tiduc_dispatch_state state = {1, 1, 1, 0, 1, 1, 1, 1, TIDUC_ARGUMENTS + TIDUC_RESULTS, NULL, bindings, lengths};
  const tiduc_workgroup group = {0, 0, 0, 0, 0, NULL, 0};
  return library->exports.kernels[0](&tiduc_here, &state, &group) ? TIDUC_FAILED : 0;
}
