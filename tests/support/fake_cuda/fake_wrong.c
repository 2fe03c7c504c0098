// SPDX-License-Identifier: Apache-2.0
/* A driver that is like the fake one, but whose copies to a device are wrong from byte 4096 on: it
 * is found before the fake one, which it is linked with. For what has to see such a thing. */
#include <dlfcn.h>
#include <string.h>

#include "fake_calls.h"

typedef int (*copy_fn)(unsigned long long to, const void *from, size_t size, void *stream);

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, void *stream)
{
    enum { GOOD_BYTES = 4096 };
    static const unsigned char wrong = 0x5a;
    void *const address = dlsym(RTLD_NEXT, "cuMemcpyHtoDAsync_v2");
    copy_fn copy;
    memcpy(&copy, &address, sizeof copy); /* ISO C has no cast for it */
    const int status = copy(to, from, size, stream);
    return status == 0 && size > GOOD_BYTES ? copy(to + GOOD_BYTES, &wrong, 1, stream) : status;
}
