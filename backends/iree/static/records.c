// The executable ABI 0.6 of IREE's compiler: the kernels below are called through these records.
typedef struct { uint64_t processor[8]; } tiduc_processor;
typedef struct {
  const uint32_t *constants;
  int (*import_thunk)(int (*)(void *, void *, void *), void *, void *, void *);
  int (*const *import_functions)(void *, void *, void *);
  const void **import_contexts;
  tiduc_processor processor;
} tiduc_environment;
typedef struct {
  uint32_t size_x, size_y;
  uint16_t size_z, constant_count;
  uint32_t count_x, count_y;
  uint16_t count_z;
  uint8_t max_concurrency, binding_count;
  const uint32_t *constants;
  void *const *bindings;
  const size_t *lengths;
} tiduc_dispatch_state;
typedef struct {
  uint32_t x, y;
  uint16_t z, reserved;
  uint32_t processor;
  void *local_memory;
  uint32_t local_memory_size;
} tiduc_workgroup;
typedef int (*tiduc_kernel)(const tiduc_environment *, const tiduc_dispatch_state *, const tiduc_workgroup *);
typedef struct {
  uint64_t flags;
  uint16_t local_memory_pages;
  uint8_t constant_count, binding_count;
  uint32_t size_x, size_y;
  uint16_t size_z, parameter_count;
  uint64_t reserved[5];
} tiduc_attributes;
typedef struct {
  const struct { uint32_t version; const char *name; } *header;
  struct { uint32_t count; const char *const *symbols; } imports;
  struct {
    uint32_t count;
    const tiduc_kernel *kernels;
    const tiduc_attributes *attributes;
    const void *parameters, *occupancy;
    const char *const *names;
  } exports;
} tiduc_library;
enum { TIDUC_NO_MEMORY = 1, TIDUC_FAILED = 2, TIDUC_SIZES = 6 };
