// Calls a module with the runtime of IREE: "gradient gradient.vmfb 2 0.5" prints exp(a x) and its derivative in x.
#include <iree/runtime/api.h>
#include <stdio.h>
#include <stdlib.h>

// Adds a number of f64 to the arguments of a call.
static iree_status_t push(iree_runtime_session_t *session, iree_runtime_call_t *call, double x) {
  iree_hal_buffer_params_t where = {.type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, .usage = IREE_HAL_BUFFER_USAGE_DEFAULT};
  iree_hal_buffer_view_t *view = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_buffer_view_allocate_buffer_copy(
      iree_runtime_session_device(session), iree_runtime_session_device_allocator(session), 0, NULL,
      IREE_HAL_ELEMENT_TYPE_FLOAT_64, IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR, where,
      iree_make_const_byte_span(&x, sizeof x), &view));
  iree_status_t status = iree_runtime_call_inputs_push_back_buffer_view(call, view);
  iree_hal_buffer_view_release(view);
  return status;
}

// Prints the next result of a call.
static iree_status_t pop(iree_runtime_session_t *session, iree_runtime_call_t *call) {
  iree_hal_buffer_view_t *view = NULL;
  double x;
  IREE_RETURN_IF_ERROR(iree_runtime_call_outputs_pop_front_buffer_view(call, &view));
  iree_status_t status = iree_hal_device_transfer_d2h(
      iree_runtime_session_device(session), iree_hal_buffer_view_buffer(view), 0, &x, sizeof x,
      IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT, iree_infinite_timeout());
  if (iree_status_is_ok(status)) printf("%.12f\n", x);
  iree_hal_buffer_view_release(view);
  return status;
}

static iree_status_t run(iree_runtime_session_t *session, char **words) {
  iree_runtime_call_t call;
  IREE_RETURN_IF_ERROR(iree_runtime_session_append_bytecode_module_from_file(session, words[1]));
  IREE_RETURN_IF_ERROR(iree_runtime_call_initialize_by_name(session, iree_make_cstring_view("module.main"), &call));
  iree_status_t status = push(session, &call, atof(words[2]));
  if (iree_status_is_ok(status)) status = push(session, &call, atof(words[3]));
  if (iree_status_is_ok(status)) status = iree_runtime_call_invoke(&call, 0);
  for (int i = 0; i < 2 && iree_status_is_ok(status); i++) status = pop(session, &call);
  iree_runtime_call_deinitialize(&call);
  return status;
}

static iree_status_t open_and_run(iree_runtime_instance_t *instance, char **words) {
  iree_hal_device_t *device = NULL;
  iree_runtime_session_t *session = NULL;
  iree_runtime_session_options_t options;
  iree_runtime_session_options_initialize(&options);
  IREE_RETURN_IF_ERROR(
      iree_runtime_instance_try_create_default_device(instance, iree_make_cstring_view("local-sync"), &device));
  iree_status_t status = iree_runtime_session_create_with_device(
      instance, &options, device, iree_runtime_instance_host_allocator(instance), &session);
  if (iree_status_is_ok(status)) status = run(session, words);
  iree_runtime_session_release(session);
  iree_hal_device_release(device);
  return status;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  iree_runtime_instance_t *instance = NULL;
  iree_runtime_instance_options_t options;
  iree_runtime_instance_options_initialize(&options);
  iree_runtime_instance_options_use_all_available_drivers(&options);
  iree_status_t status = iree_runtime_instance_create(&options, iree_allocator_system(), &instance);
  if (iree_status_is_ok(status)) status = open_and_run(instance, words);
  iree_runtime_instance_release(instance);
  if (iree_status_is_ok(status)) return 0;
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  return 1;
}
