// SPDX-License-Identifier: Apache-2.0
/* HIP over CUDA: what is told of a device. Device handles of both are the numbers from 0 on. */
#include <stdio.h>
#include <string.h>

#include "over_core.h"

enum { NAME_BYTES = 256, INVALID_DEVICE = HR__HIP_INVALID_DEVICE };

hipError_t hipRuntimeGetVersion(int *version)
{
    *version = hip_abi_version(HIP_OVER_CUDA_ROCM);
    return over_end(0);
}

hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
    return over_end(over_has_device(device) ? over_cuda->device_get_name(name, size, device)
                                            : INVALID_DEVICE);
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    return over_end(over_has_device(device) ? over_cuda->device_total_mem(bytes, device)
                                            : INVALID_DEVICE);
}

/* The values of n attributes of CUDA, in their order. */
static int get_attributes(int device, const int *attributes, int n, int *values)
{
    int status = over_has_device(device) ? 0 : INVALID_DEVICE;
    for (int i = 0; i < n && status == 0; i++)
        status = over_cuda->device_get_attribute(&values[i], attributes[i], device);
    return status;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    static const int attributes[] = {HR__CUDA_PROCESSOR_COUNT};
    return over_end(attribute == HR__HIP_PROCESSOR_COUNT
                        ? get_attributes(device, attributes, 1, value)
                        : HR__HIP_INVALID_VALUE);
}

hipError_t hipDeviceGetPCIBusId(char *id, int size, int device)
{
    static const int attributes[] = {HR__CUDA_PCI_DOMAIN, HR__CUDA_PCI_BUS, HR__CUDA_PCI_DEVICE};
    int values[3] = {0};
    const int status = get_attributes(device, attributes, 3, values);
    if (status == 0)
        snprintf(id, (size_t)size, "%04x:%02x:%02x.0", (unsigned)values[0], (unsigned)values[1],
                 (unsigned)values[2]);
    return over_end(status);
}

/* HIP has 8 bytes as 16 digits, without an end; CUDA has 16 bytes. */
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    static const char digits[] = "0123456789abcdef";
    CUuuid all;
    const int status =
        over_has_device(device) ? over_cuda->device_get_uuid(&all, device) : INVALID_DEVICE;
    for (size_t i = 0; i < sizeof uuid->bytes && status == 0; i++)
        uuid->bytes[i] = digits[(unsigned char)all.bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    return over_end(status);
}

/* The name, which comes first, and that of the architecture; the rest is 0. */
static int tell_properties(hipDeviceProp_t *properties, size_t size, size_t arch_at, int device)
{
    static const int attributes[] = {HR__CUDA_ARCH_MAJOR, HR__CUDA_ARCH_MINOR};
    int arch[2] = {0};
    int status = get_attributes(device, attributes, 2, arch);
    if (status != 0)
        return status;
    memset(properties->bytes, 0, size);
    snprintf(properties->bytes + arch_at, HR__HIP_ARCH_BYTES, "sm_%d%d", arch[0], arch[1]);
    return over_cuda->device_get_name(properties->bytes, NAME_BYTES, device);
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int device)
{
    return over_end(tell_properties(properties, HIP_ABI_OLD_BYTES, HR__HIP_5_ARCH_AT, device));
}

#if HIP_OVER_CUDA_ROCM >= 6
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device)
{
    return over_end(tell_properties(properties, HIP_ABI_NEW_BYTES, HR__HIP_6_ARCH_AT, device));
}
#endif
