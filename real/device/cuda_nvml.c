/* The SM clock through NVML, which comes with the driver. The few types used are declared here, so that building needs
 * neither header nor library. Reference: NVML API, nvmlDeviceGetClockInfo. */
#include "cuda_parts.h"

#include <dlfcn.h>

enum { NVML_CLOCK_SM = 1 };

struct Nvml {
  void *library;
  void *gpu; /* nvmlDevice_t */
  int (*get_clock)(void *gpu, int type, unsigned *MHz);
};

Nvml *nvml_new(int ordinal) {
  char bus_id[32];
  int (*init)(void);
  int (*get_handle)(const char *bus_id, void **gpu);
  Nvml *nvml = g_new0(Nvml, 1);
  nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml->library == NULL)
    return nvml;
  *(void **)&init = dlsym(nvml->library, "nvmlInit_v2");
  *(void **)&get_handle = dlsym(nvml->library, "nvmlDeviceGetHandleByPciBusId_v2");
  *(void **)&nvml->get_clock = dlsym(nvml->library, "nvmlDeviceGetClockInfo");
  if (init == NULL || get_handle == NULL || nvml->get_clock == NULL || init() != 0 ||
      cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, ordinal) != cudaSuccess || get_handle(bus_id, &nvml->gpu) != 0)
    nvml->gpu = NULL;
  return nvml;
}

void nvml_free(Nvml *nvml) {
  if (nvml == NULL)
    return;
  if (nvml->library != NULL)
    dlclose(nvml->library);
  g_free(nvml);
}

double nvml_clock_Hz(const Nvml *nvml) {
  unsigned MHz = 0;
  if (nvml->gpu == NULL || nvml->get_clock(nvml->gpu, NVML_CLOCK_SM, &MHz) != 0)
    return 0.0;
  return 1e6 * MHz;
}
