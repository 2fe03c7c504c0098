// SPDX-License-Identifier: Apache-2.0
/* Names of statuses, and the one function that writes an error. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

const char *hr_status_name(hr_status status)
{
    switch (status) {
    case HR_OK:
        return "HR_OK";
    case HR_AGAIN:
        return "HR_AGAIN";
    case HR_PENDING:
        return "HR_PENDING";
    case HR_EINVAL:
        return "HR_EINVAL";
    case HR_ENOMEM:
        return "HR_ENOMEM";
    case HR_EIO:
        return "HR_EIO";
    case HR_ETRUNCATED:
        return "HR_ETRUNCATED";
    case HR_EUNSUPPORTED:
        return "HR_EUNSUPPORTED";
    case HR_ECANCELED:
        return "HR_ECANCELED";
    case HR_EFORK:
        return "HR_EFORK";
    case HR_ETHREAD:
        return "HR_ETHREAD";
    case HR_ESPACE:
        return "HR_ESPACE";
    }
    return "unknown status";
}

#define HR__TEXT(x) #x
#define HR__DOTTED(a, b, c) HR__TEXT(a) "." HR__TEXT(b) "." HR__TEXT(c)

const char *hr_version(void)
{
    return HR__DOTTED(HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
}

hr_status hr__fail(hr_error *err, hr_status code, struct hr__where where, const char *format, ...)
{
    if (err) {
        *err = (hr_error){
            .code = code,
            .stage = (int32_t)where.stage,
            .native = where.native,
            .chunk = where.chunk,
            .offset = where.offset,
        };
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}
