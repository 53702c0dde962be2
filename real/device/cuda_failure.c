#include "cuda_parts.h"

gboolean cuda_device_has_failed(const Device *device) {
  return g_atomic_int_get(&((const CudaDevice *)device)->has_failed);
}

void cuda_device_fail(Device *base, GError *error) {
  CudaDevice *device = (CudaDevice *)base;
  g_mutex_lock(&device->lock);
  if (device->failure == NULL)
    device->failure = g_steal_pointer(&error);
  g_mutex_unlock(&device->lock);
  g_clear_error(&error);
  g_atomic_int_set(&device->has_failed, TRUE);
}

gboolean cuda_device_enter(CudaDevice *device) {
  if (g_atomic_int_get(&device->has_failed))
    return FALSE;
  GError *error = NULL;
  if (CUDA_CALL(cudaSetDevice(device->ordinal), &error))
    return TRUE;
  cuda_device_fail(&device->device, error);
  return FALSE;
}
