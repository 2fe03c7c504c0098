// SPDX-License-Identifier: Apache-2.0
/*
 * The text of built-in kernels: NAME[:WORD,WORD,...] to a struct hr__kernel_spec. Words are cut
 * into small buffers first; each kind then reads its own.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_kernels.h"

#define TYPES "u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64"
#define OPS "lt le gt ge eq ne"
enum { MAX_WORDS = 4, WORD_SIZE = 64, MAX_BINS = 1 << 20, MAX_BLOCK = 1 << 30 };

struct parser {
    char name[WORD_SIZE];
    char word[MAX_WORDS][WORD_SIZE];
    int n_words;
    const char *text;
    char *why;
    size_t why_size;
};

static const struct {
    const char *name;
    size_t n_bytes;
} types[] = {
    [HR__TYPE_U8] = {"u8", 1},   [HR__TYPE_I8] = {"i8", 1},     [HR__TYPE_U16] = {"u16", 2},
    [HR__TYPE_I16] = {"i16", 2}, [HR__TYPE_I32] = {"i32", 4},   [HR__TYPE_I64] = {"i64", 8},
    [HR__TYPE_F16] = {"f16", 2}, [HR__TYPE_BF16] = {"bf16", 2}, [HR__TYPE_F32] = {"f32", 4},
    [HR__TYPE_F64] = {"f64", 8}, [HR__TYPE_U32] = {"u32", 4},   [HR__TYPE_U64] = {"u64", 8},
};

size_t hr__type_bytes(enum hr__type type)
{
    return types[type].n_bytes;
}

const char *hr__type_name(enum hr__type type)
{
    return types[type].name;
}

/* Always -1, so that a caller can return it. */
static int refuse(const struct parser *p, const char *word, const char *accepted)
{
    if (p->why_size > 0)
        snprintf(p->why, p->why_size, "kernel \"%s\": \"%s\" is not accepted here: expected %s",
                 p->text, word, accepted);
    return -1;
}

static int split(struct parser *p)
{
    const char *rest = p->text;
    char *into = p->name;
    for (;;) {
        const char *stops = into == p->name ? ":" : ",";
        const size_t n = strcspn(rest, stops);
        if (n >= WORD_SIZE)
            return refuse(p, rest, "a word of less than 64 characters");
        memcpy(into, rest, n);
        into[n] = '\0';
        rest += n;
        if (*rest == '\0')
            return 0;
        rest++;
        if (p->n_words == MAX_WORDS)
            return refuse(p, rest, "at most 4 words");
        into = p->word[p->n_words++];
    }
}

/* names: "TYPE,OP,VALUE"; example: words for them. */
static int need_words(const struct parser *p, int n, const char *names, const char *example)
{
    if (p->n_words == n)
        return 0;
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%.64s%s%s", p->name, n ? ":" : " alone", names);
    if (p->n_words > n)
        return refuse(p, p->text, wanted);
    for (int i = 0; i < p->n_words; i++)
        names = strchr(names, ',') + 1;
    if (p->why_size > 0)
        snprintf(p->why, p->why_size, "kernel \"%s\": %s %.*s is missing, as in %s:%s", p->text,
                 strchr("AO", *names) ? "an" : "a", (int)strcspn(names, ","), names, p->name,
                 example);
    return -1;
}

static int read_type(const struct parser *p, int i, enum hr__type *out)
{
    for (unsigned t = 0; t < HR__N_DATA_TYPES; t++) {
        if (strcmp(p->word[i], types[t].name) == 0) {
            *out = (enum hr__type)t;
            return 0;
        }
    }
    return refuse(p, p->word[i], "a type, one of " TYPES);
}

static int read_double(const struct parser *p, int i, double *out)
{
    const char *word = p->word[i];
    char *end = NULL;
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return refuse(p, word, "memory for the C locale");
    const double v = strtod_l(word, &end, c_locale);
    freelocale(c_locale);
    if (end == word || *end != '\0' || isnan(v))
        return refuse(p, word, "a number");
    *out = v;
    return 0;
}

static int read_int64(const struct parser *p, int i, int64_t *out)
{
    const char *word = p->word[i];
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(word, &end, 10);
    if (end == word || *end != '\0' || errno == ERANGE)
        return refuse(p, word, "an integer of 64 bits, as the type is one");
    *out = v;
    return 0;
}

static int read_size(const struct parser *p, int i, uint32_t max, const char *what, uint32_t *out)
{
    const char *word = p->word[i];
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(word, &end, 10);
    if (end == word || *end != '\0' || errno == ERANGE || v < 1 || v > (long long)max)
        return refuse(p, word, what);
    *out = (uint32_t)v;
    return 0;
}

static int is_integer(enum hr__type type)
{
    return type <= HR__TYPE_I64;
}

static int parse_cast(const struct parser *p, struct hr__kernel_spec *s)
{
    if (need_words(p, 2, "FROM,TO", "f32,f16") || read_type(p, 0, &s->from) ||
        read_type(p, 1, &s->to))
        return -1;
    s->unit_in_bytes = (uint32_t)hr__type_bytes(s->from);
    s->unit_out_bytes = (uint32_t)hr__type_bytes(s->to);
    return 0;
}

/* FROM alone, as the first word: what is written has its type, too. */
static int parse_element(const struct parser *p, struct hr__kernel_spec *s)
{
    if (read_type(p, 0, &s->from))
        return -1;
    s->to = s->from;
    s->unit_in_bytes = (uint32_t)hr__type_bytes(s->from);
    s->unit_out_bytes = s->unit_in_bytes;
    return 0;
}

static int parse_scale(const struct parser *p, struct hr__kernel_spec *s)
{
    if (need_words(p, 3, "TYPE,MUL,ADD", "f32,2,0") || parse_element(p, s))
        return -1;
    return read_double(p, 1, &s->mul) || read_double(p, 2, &s->add) ? -1 : 0;
}

static int parse_bswap(const struct parser *p, struct hr__kernel_spec *s)
{
    if (need_words(p, 1, "WIDTH", "4") || read_size(p, 0, 8, "2, 4 or 8", &s->width_bytes))
        return -1;
    if (s->width_bytes != 2 && s->width_bytes != 4 && s->width_bytes != 8)
        return refuse(p, p->word[0], "2, 4 or 8");
    s->unit_in_bytes = s->width_bytes;
    s->unit_out_bytes = s->width_bytes;
    return 0;
}

static int parse_shuffle(const struct parser *p, struct hr__kernel_spec *s)
{
    static const char form[] = "a WIDTH from 1 to 256 and a BLOCK, as in shuffle:4,4096";
    static const char block[] = "a BLOCK of 1 to 2^30 bytes, a multiple of WIDTH";
    if (need_words(p, 2, "WIDTH,BLOCK", "4,4096") || read_size(p, 0, 256, form, &s->width_bytes) ||
        read_size(p, 1, MAX_BLOCK, block, &s->unit_in_bytes))
        return -1;
    if (s->unit_in_bytes % s->width_bytes != 0)
        return refuse(p, p->word[1], block);
    s->unit_out_bytes = s->unit_in_bytes;
    return 0;
}

static int parse_compare(const struct parser *p, struct hr__kernel_spec *s)
{
    static const struct {
        const char *name;
        struct hr__compare compare;
    } ops[] = {
        {"lt", {.lt = true}},
        {"le", {.lt = true, .eq = true}},
        {"gt", {.gt = true}},
        {"eq", {.eq = true}},
        {"ge", {.gt = true, .eq = true}},
        {"ne", {.eq = true, .invert = true}},
    };
    if (need_words(p, 3, "TYPE,OP,VALUE", "f32,gt,0") || parse_element(p, s))
        return -1;
    size_t i = 0;
    while (i < sizeof ops / sizeof ops[0] && strcmp(p->word[1], ops[i].name) != 0)
        i++;
    if (i == sizeof ops / sizeof ops[0])
        return refuse(p, p->word[1], "a comparison, one of " OPS);
    s->compare = ops[i].compare;
    if (is_integer(s->from))
        return read_int64(p, 2, &s->compare.int_value);
    return read_double(p, 2, &s->compare.float_value);
}

static int parse_filter(const struct parser *p, struct hr__kernel_spec *s)
{
    s->is_counted = true;
    return parse_compare(p, s);
}

/* A state is two words and, in the longest but the histogram's, an exact sum. */
static void make_reduction(struct hr__kernel_spec *s, enum hr__type result)
{
    s->to = result;
    s->unit_out_bytes = 0;
    s->is_reduction = true;
    s->state_bytes = 2 * sizeof(uint64_t) + sizeof(struct hr__exact);
    if (s->n_bins * sizeof(uint64_t) > sizeof(struct hr__exact))
        s->state_bytes = (2 + (uint64_t)s->n_bins) * sizeof(uint64_t);
}

static enum hr__type sum_type(enum hr__type type)
{
    if (!is_integer(type))
        return HR__TYPE_F64;
    return type == HR__TYPE_U8 || type == HR__TYPE_U16 ? HR__TYPE_U64 : HR__TYPE_I64;
}

static int parse_one_type(const struct parser *p, struct hr__kernel_spec *s)
{
    if (need_words(p, 1, "TYPE", "f32") || parse_element(p, s))
        return -1;
    enum hr__type result = s->from;
    if (s->kind == HR__KERNEL_SUM)
        result = sum_type(s->from);
    if (s->kind == HR__KERNEL_MEAN)
        result = HR__TYPE_F64;
    make_reduction(s, result);
    return 0;
}

static int parse_histogram(const struct parser *p, struct hr__kernel_spec *s)
{
    s->n_bins = 256;
    s->hi = 256;
    s->unit_in_bytes = 1;
    if (p->n_words != 0) {
        if (need_words(p, 4, "TYPE,LO,HI,BINS", "f32,0,1,256") || parse_element(p, s) ||
            read_double(p, 1, &s->lo) || read_double(p, 2, &s->hi) ||
            read_size(p, 3, MAX_BINS, "a number of bins from 1 to 2^20", &s->n_bins))
            return -1;
        const double step = (s->hi - s->lo) / s->n_bins;
        if (!isfinite(s->lo) || !isfinite(s->hi) || !isfinite(step))
            return refuse(p, p->word[2], "finite LO and HI with a finite difference");
        if (!(s->lo + step > s->lo && s->hi - step < s->hi))
            return refuse(p, p->word[2], "a HI above LO, by enough for bins of f64 width");
    }
    make_reduction(s, HR__TYPE_U64);
    return 0;
}

static int parse_count(const struct parser *p, struct hr__kernel_spec *s)
{
    if (parse_compare(p, s))
        return -1;
    make_reduction(s, HR__TYPE_U64);
    return 0;
}

static int parse_crc32(const struct parser *p, struct hr__kernel_spec *s)
{
    if (need_words(p, 0, "", ""))
        return -1;
    s->unit_in_bytes = 1;
    make_reduction(s, HR__TYPE_U32);
    return 0;
}

static const struct {
    const char *name;
    enum hr__kernel_kind kind;
    int (*parse)(const struct parser *p, struct hr__kernel_spec *s);
} kinds[] = {
    {"cast", HR__KERNEL_CAST, parse_cast},
    {"scale", HR__KERNEL_SCALE, parse_scale},
    {"bswap", HR__KERNEL_BSWAP, parse_bswap},
    {"shuffle", HR__KERNEL_SHUFFLE, parse_shuffle},
    {"unshuffle", HR__KERNEL_UNSHUFFLE, parse_shuffle},
    {"filter", HR__KERNEL_FILTER, parse_filter},
    {"sum", HR__KERNEL_SUM, parse_one_type},
    {"min", HR__KERNEL_MIN, parse_one_type},
    {"max", HR__KERNEL_MAX, parse_one_type},
    {"mean", HR__KERNEL_MEAN, parse_one_type},
    {"histogram", HR__KERNEL_HISTOGRAM, parse_histogram},
    {"count", HR__KERNEL_COUNT, parse_count},
    {"crc32", HR__KERNEL_CRC32, parse_crc32},
};

int hr__kernel_parse(const char *text, struct hr__kernel_spec *out, char *why, size_t why_size)
{
    struct parser p = {.text = text, .why = why, .why_size = why_size};
    if (split(&p))
        return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(p.name, kinds[i].name) != 0)
            continue;
        struct hr__kernel_spec spec = {.kind = kinds[i].kind};
        if (kinds[i].parse(&p, &spec))
            return -1;
        *out = spec;
        return 0;
    }
    return refuse(&p, p.name,
                  "cast, scale, bswap, shuffle, unshuffle, filter, sum, min, max, mean, histogram, "
                  "count or crc32");
}
