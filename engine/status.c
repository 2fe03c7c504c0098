// SPDX-License-Identifier: Apache-2.0
/* Names of statuses, and the one function that writes an error. */
#include "status.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hr_status_name(hr_status status)
{
    switch (status) {
    case HR_OK:
        return "HR_OK";
    case HR_AGAIN:
        return "HR_AGAIN";
    case HR_PENDING:
        return "HR_PENDING";
    case HR_END:
        return "HR_END";
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
    case HR_ECORRUPT:
        return "HR_ECORRUPT";
    case HR_ELIMIT:
        return "HR_ELIMIT";
    case HR_EDEVICE:
        return "HR_EDEVICE";
    case HR_ETIMEDOUT:
        return "HR_ETIMEDOUT";
    case HR_ELOANED:
        return "HR_ELOANED";
    }
    return "unknown status";
}

const char *hr_stage_name(enum hr_stage stage)
{
    static const char *const names[HR_STAGE_COUNT] = {
        [HR_STAGE_NONE] = "none",     [HR_STAGE_READ] = "read",     [HR_STAGE_DECODE] = "decode",
        [HR_STAGE_H2D] = "H2D",       [HR_STAGE_KERNEL] = "kernel", [HR_STAGE_D2H] = "D2H",
        [HR_STAGE_ENCODE] = "encode", [HR_STAGE_WRITE] = "write",
    };
    return (unsigned)stage < HR_STAGE_COUNT ? names[stage] : "unknown stage";
}

#define HR__TEXT(x) #x
#define HR__DOTTED(a, b, c) HR__TEXT(a) "." HR__TEXT(b) "." HR__TEXT(c)

const char *hr_version(void)
{
    return HR__DOTTED(HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
}

/* One line, whatever a name holds; what does not fit is left out in the middle, where the name is: the
 * cause stands behind it. */
static void set_text(char *text, char *whole, size_t length)
{
    static const char gap[] = "...";
    enum { HEAD = HR_ERROR_TEXT / 2, TAIL = HR_ERROR_TEXT - HEAD - (sizeof gap - 1) };
    for (char *at = whole; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    if (length < HR_ERROR_TEXT) {
        memcpy(text, whole, length + 1);
        return;
    }
    memcpy(text, whole, HEAD);
    memcpy(text + HEAD, gap, sizeof gap - 1);
    memcpy(text + HR_ERROR_TEXT - TAIL, whole + length + 1 - TAIL, TAIL);
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
        char whole[PATH_MAX + HR_ERROR_TEXT] = "";
        va_list args;
        va_start(args, format);
        vsnprintf(whole, sizeof whole, format, args);
        va_end(args);
        set_text(err->text, whole, strlen(whole));
    }
    return code;
}
