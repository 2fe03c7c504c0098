// SPDX-License-Identifier: Apache-2.0
/* What the reductions of a chain found, in words and as JSON: an array with an object for each of
 * them. Integers are exact; JSON has no infinities and no NaN, so these are strings. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct type {
    const char *name;
    unsigned size;
} types[] = {
    [HR_TYPE_I64] = {"i64", 8},   [HR_TYPE_U64] = {"u64", 8}, [HR_TYPE_F64] = {"f64", 8},
    [HR_TYPE_U8] = {"u8", 1},     [HR_TYPE_I8] = {"i8", 1},   [HR_TYPE_U16] = {"u16", 2},
    [HR_TYPE_I16] = {"i16", 2},   [HR_TYPE_I32] = {"i32", 4}, [HR_TYPE_F16] = {"f16", 2},
    [HR_TYPE_BF16] = {"bf16", 2}, [HR_TYPE_F32] = {"f32", 4}, [HR_TYPE_U32] = {"u32", 4},
};

static const struct type *type_of(uint32_t type)
{
    return type < sizeof types / sizeof types[0] && types[type].name ? &types[type] : NULL;
}

unsigned result_type_bytes(uint32_t type)
{
    return type_of(type) ? type_of(type)->size : 0;
}

/* IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction. */
static double from_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    double value;
    if (exponent == 31)
        value = fraction > 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

/* The upper half of a float. */
static double from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* The shortest text that reads as the same number, of what is converted to a double exactly. */
static void print_float(FILE *out, double value, const char *quote)
{
    char text[32];
    if (isnan(value)) {
        fprintf(out, "%snan%s", quote, quote);
    } else if (isinf(value)) {
        fprintf(out, "%s%sinf%s", quote, value < 0 ? "-" : "", quote);
    } else if (value == 0) { /* "-0" would be read as an integer, without its sign */
        fputs(signbit(value) ? "-0.0" : "0.0", out);
    } else {
        int digits = 15;
        do
            snprintf(text, sizeof text, "%.*g", digits, value);
        while (strtod(text, NULL) != value && ++digits <= 17);
        fputs(text, out);
    }
}

static double load_float(uint32_t type, const void *at)
{
    uint16_t half = 0;
    float single = 0;
    double value = 0;
    if (type == HR_TYPE_F64) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    if (type == HR_TYPE_F32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    memcpy(&half, at, sizeof half);
    return type == HR_TYPE_F16 ? from_f16(half) : from_bf16(half);
}

/* Little-endian, as the machine's. */
static void print_integer(FILE *out, const void *at, unsigned size, bool is_signed)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    if (is_signed && bits & sign) {
        fputc('-', out);
        bits = sign - (bits ^ sign); /* the magnitude, also of the smallest number */
    }
    fprintf(out, "%" PRIu64, bits);
}

/* quote: what stands around a number that JSON lacks. */
static void print_value(FILE *out, uint32_t type, const void *at, const char *quote)
{
    const struct type *known = type_of(type);
    const char first = known->name[0];
    if (first == 'f' || first == 'b')
        print_float(out, load_float(type, at), quote);
    else
        print_integer(out, at, known->size, first == 'i');
}

static void print_result(FILE *out, const char *kernel, const struct hr_result *result)
{
    const struct type *type = type_of(result->type);
    fputs("{\"kernel\": ", out);
    json_text(out, kernel);
    fprintf(out, ", \"type\": \"%s\", \"n_units\": %" PRIu64 ", \"values\": [", type->name,
            result->n_units);
    for (uint64_t i = 0; i < result->n_values; i++) {
        fputs(i ? ", " : "", out);
        print_value(out, result->type, (const char *)result->data + i * type->size, "\"");
    }
    fputs("]}", out);
}

/* Kernels that find nothing are passed over. False: told why. */
bool print_results(FILE *out, const char *apart, hr_pipeline *pipeline,
                   const struct options *options)
{
    hr_error error = {0};
    const char *between = "[";
    for (uint32_t i = 0; i < options->config.n_kernels; i++) {
        struct hr_result result = {.struct_size = sizeof result};
        const hr_status status = hr_pipeline_result(pipeline, i, &result, &error);
        if (status == HR_EINVAL)
            continue;
        if (status != HR_OK || !type_of(result.type)) {
            fprintf(stderr, "headrace: --result: %s: %s\n", options->kernel_words[i],
                    status != HR_OK ? error.text : "a type that this command does not know");
            return false;
        }
        fputs(between, out);
        print_result(out, options->kernel_words[i], &result);
        between = apart;
    }
    fputs(*between == '[' ? "[]" : "]", out);
    return true;
}

static bool print_array(FILE *out, hr_pipeline *pipeline, const struct options *options)
{
    if (!print_results(out, ",\n ", pipeline, options))
        return false;
    fputc('\n', out);
    return true;
}

static void print_counts(FILE *out, const struct hr_result *result)
{
    const uint64_t *counts = result->data;
    uint64_t most = 0;
    for (uint64_t i = 1; i < result->n_values; i++)
        if (counts[i] > counts[most])
            most = i;
    fprintf(out, ": %" PRIu64 " bins, %" PRIu64 " units", result->n_values, result->n_units);
    if (counts[most])
        fprintf(out, ", most in bin %" PRIu64, most);
}

void print_results_text(FILE *out, hr_pipeline *pipeline, const struct options *options)
{
    for (uint32_t i = 0; i < options->config.n_kernels; i++) {
        struct hr_result result = {.struct_size = sizeof result};
        if (hr_pipeline_result(pipeline, i, &result, NULL) != HR_OK || !type_of(result.type))
            continue;
        fprintf(out, "headrace: %s", options->kernel_words[i]);
        if (result.n_values > 1) {
            print_counts(out, &result);
        } else {
            fputs(" = ", out);
            if (result.n_values)
                print_value(out, result.type, result.data, "");
            else
                fputs("nothing", out);
            fprintf(out, " of %" PRIu64 " units", result.n_units);
        }
        fputc('\n', out);
    }
}

static bool failed(const char *path)
{
    fprintf(stderr, "headrace: --result %s: %s\n", path, strerror(errno));
    return false;
}

bool write_results(hr_pipeline *pipeline, const struct options *options)
{
    struct whole_file file;
    if (!options->result)
        return true;
    if (strcmp(options->result, "-") == 0)
        return print_array(stdout, pipeline, options) &&
               ((fflush(stdout) == 0 && !ferror(stdout)) || failed("-"));
    if (!whole_file_open(&file, options->result))
        return failed(options->result);
    if (!print_array(file.stream, pipeline, options)) {
        whole_file_drop(&file);
        return false;
    }
    return whole_file_close(&file) || failed(options->result);
}
