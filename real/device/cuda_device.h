/* The cuda device, for code that must know the device is a GPU: NCCL and the tests. */
#pragma once
#include "device.h"

#include <cuda_runtime_api.h>

cudaStream_t cuda_stream_handle(const DeviceStream *stream);
int cuda_device_ordinal(const Device *device);
/* Makes the device fail. Takes ownership of `error`; the first one is kept. May be called from any thread. */
void cuda_device_fail(Device *device, GError *error);
gboolean cuda_device_has_failed(const Device *device);
/* `watch` is called now and then while sleep_until waits; FALSE with the error makes the device fail. One at a time;
 * NULL removes it. For errors raised outside the streams, like NCCL's. */
void cuda_device_set_watch(Device *device, gboolean (*watch)(gpointer data, GError **error), gpointer data);
/* Which fused attention has run on this stream: see cuda_attention_describe(). */
const char *cuda_stream_attention(const DeviceStream *stream, gboolean *fell_back);
