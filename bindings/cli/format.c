// SPDX-License-Identifier: Apache-2.0
/* Numbers and strings as people and programs read them. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

const char *human_bytes(double bytes, char out[HUMAN_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    unsigned i = 0;
    while (bytes >= 999.5 && i + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        i++;
    }
    const int decimals = i == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
    snprintf(out, HUMAN_SIZE, "%.*f %s", decimals, bytes, units[i]);
    return out;
}

double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Bytes of the character of UTF-8 at text (RFC 3629, section 4), 0 if there is none. */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    if (c < 0x80)
        return 1;
    const size_t length = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (c < 0xc2 || !length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
    const bool beyond = (c == 0xed && text[1] > 0x9f) || (c == 0xf4 && text[1] > 0x8f);
    return overlong || beyond ? 0 : length;
}

void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        const unsigned char c = (unsigned char)*text;
        const size_t length = utf8_length((const unsigned char *)text);
        if (!length)
            fputs("\\ufffd", out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ')
            fprintf(out, "\\u%04x", c);
        else
            fwrite(text, 1, length, out);
        text += length ? length : 1;
    }
    fputc('"', out);
}
