// SPDX-License-Identifier: Apache-2.0
/* The words of the command line that are numbers of some kind. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* strtoull alone would take "-1" and a leading space. */
static bool read_digits(const char *text, char **end, uint64_t *out)
{
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, end, 10);
    return !errno;
}

bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    return read_digits(text, &end, out) && !*end;
}

bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t number;
    unsigned shift = 0;
    char *end;
    if (!read_digits(text, &end, &number))
        return false;
    if (*end) {
        const char *unit = strchr(units, *end == 'k' ? 'K' : *end);
        if (!unit || (end[1] && (*end == 'k' || strcmp(end + 1, "iB") != 0)))
            return false;
        shift = 10u * (unsigned)(unit - units + 1);
    }
    if (number > UINT64_MAX >> shift)
        return false;
    *out = number << shift;
    return true;
}

/* strtod alone would take "inf", "0x1p3" and a leading space. */
bool parse_seconds(const char *text, uint32_t *out_ms)
{
    if (!*text || text[strspn(text, "0123456789.")])
        return false;
    char *end;
    const double ms = strtod(text, &end) * 1000;
    if (*end || ms > 4e9)
        return false;
    *out_ms = ms > 0 && ms < 1 ? 1 : (uint32_t)ms;
    return true;
}

bool parse_encoding(const char *text, uint32_t *codec, int32_t *level)
{
    *codec = strcmp(text, "none") == 0 ? HR_CODEC_NONE : HR_CODEC_ZSTD;
    *level = 0;
    if (*codec == HR_CODEC_NONE || strcmp(text, "zstd") == 0)
        return true;
    if (strncmp(text, "zstd:", 5) != 0 || !(isdigit((unsigned char)text[5]) || text[5] == '-'))
        return false;
    char *end;
    const long number = strtol(text + 5, &end, 10);
    /* from the fastest to the most thorough of zstd, whose 0 means 3 as well */
    if (*end || end == text + 5 || number < -131072 || number > 22)
        return false;
    *level = (int32_t)number;
    return true;
}

/* What the library takes in the place of N: a number, a UUID or its begin, or a PCI address. */
static bool is_which_device(const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(word, "GPU-", 4) == 0)
        return length > 4;
    if (strchr(word, ':'))
        return strspn(word, "0123456789abcdefABCDEF:.") == length;
    return length > 0 && length < 10 && strspn(word, "0123456789") == length;
}

bool is_device_word(const char *text)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "host") == 0 || strcmp(text, "cuda") == 0 ||
        strcmp(text, "hip") == 0)
        return true;
    return (strncmp(text, "cuda:", 5) == 0 && is_which_device(text + 5)) ||
           (strncmp(text, "hip:", 4) == 0 && is_which_device(text + 4));
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool parse_hex(const char *text, unsigned char *out)
{
    const size_t length = strlen(text);
    if (!length || length % 2 || text[strspn(text, "0123456789abcdefABCDEF")])
        return false;
    for (size_t i = 0; i < length; i += 2)
        *out++ = (unsigned char)(hex_digit(text[i]) << 4 | hex_digit(text[i + 1]));
    return true;
}
