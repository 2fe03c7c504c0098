// SPDX-License-Identifier: Apache-2.0
/* headrace devices: what this machine offers, and why something is absent. */
#include <argp.h>
#include <string.h>

#include "selftest.h"
#include "tuned.h"

enum { KEY_JSON = 256, KEY_SELFTEST, KEY_LIMIT, LIMIT_S = 60, MOST_LIMIT_S = 3600 };

struct devices_options {
    bool json;
    const char *tested; /* NULL: devices are only listed */
    const char *limit;  /* as it was given */
    uint64_t limit_s;
};

static const struct argp_option option_table[] = {
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {"json", KEY_JSON, NULL, 0, "As JSON, with exact numbers", 0},
    {"selftest", KEY_SELFTEST, "DEVICE", OPTION_ARG_OPTIONAL,
     "Checks a device (auto) against the host, and prints a report that can be attached to a bug",
     0},
    {"limit", KEY_LIMIT, "SECONDS", 0, "For each check of --selftest, after which it ends (60)", 0},
    {0},
};

static void set_tested(struct devices_options *o, const char *arg, struct argp_state *state)
{
    o->tested = arg ? arg : "auto";
    if (!is_device_word(o->tested))
        argp_error(state,
                   "--selftest=%s: one of auto, host, cuda:N and hip:N is wanted, or for N "
                   "a UUID (GPU-...) or a PCI address",
                   o->tested);
}

static void set_limit(struct devices_options *o, const char *arg, struct argp_state *state)
{
    o->limit = arg;
    if (!parse_number(arg, &o->limit_s) || o->limit_s < 1 || o->limit_s > MOST_LIMIT_S)
        argp_error(state, "--limit %s: seconds from 1 to %d are wanted", arg, MOST_LIMIT_S);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct devices_options *o = state->input;
    if (key == 'h')
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* which exits */
    else if (key == KEY_JSON)
        o->json = true;
    else if (key == KEY_SELFTEST)
        set_tested(o, arg, state);
    else if (key == KEY_LIMIT)
        set_limit(o, arg, state);
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is too much: no argument is taken%s", arg,
                   o->tested ? "; a device is named as in --selftest=cuda:0" : "");
    else if (key == ARGP_KEY_END && o->limit && !o->tested)
        argp_error(state, "--limit goes with --selftest");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .doc = "Lists the devices that kernels can run on, each absent one with its reason, and what "
           "reads and writes on this machine; or checks one of them.\v"
           "Exit status: 0 the list was printed, whatever it says, or every check passed or was "
           "skipped; 1 the list could not be made, a check failed or the device is not there; 2 "
           "the command line is wrong.",
};

static void print_text(const struct hr_device *devices, size_t n, const char *io, const char *why)
{
    for (size_t i = 0; i < n; i++) {
        const struct hr_device *d = &devices[i];
        char memory[HUMAN_SIZE];
        if (!d->present)
            printf("%-8s absent   %s\n", d->name, d->why);
        else
            printf("%-8s present  %s%s%s%s%s%s%s%s%s\n", d->name, d->title,
                   d->memory_bytes ? ", " : "",
                   d->memory_bytes ? human_bytes((double)d->memory_bytes, memory) : "",
                   d->version[0] ? ", " : "", d->version, d->pci[0] ? ", " : "", d->pci,
                   d->uuid[0] ? ", " : "", d->uuid);
    }
    printf("%-8s %-8s %s%s\n", "I/O", io, *why ? "because " : "", why);
    print_tuned_text();
}

static void print_field(const char *key, const char *value)
{
    printf(", \"%s\": ", key);
    json_text(stdout, value);
}

static void print_json(const struct hr_device *devices, size_t n, const char *io, const char *why)
{
    fputs("{\"devices\": [", stdout);
    for (size_t i = 0; i < n; i++) {
        const struct hr_device *d = &devices[i];
        printf("%s{\"present\": %s", i ? ",\n  " : "\n  ", d->present ? "true" : "false");
        print_field("name", d->name);
        print_field("title", d->title);
        print_field("version", d->version);
        print_field("uuid", d->uuid);
        print_field("pci", d->pci);
        print_field("why", d->why);
        printf(", \"memory_bytes\": %llu}", (unsigned long long)d->memory_bytes);
    }
    printf("],\n \"io\": \"%s\"", io);
    print_field("io_why", why);
    print_tuned_json();
    puts("}");
}

static int list_devices(bool json)
{
    static struct hr_device devices[MAX_DEVICES];
    size_t n = MAX_DEVICES;
    hr_loop *loop = NULL;
    hr_error error = {0};
    devices[0].struct_size = sizeof devices[0];
    hr_status status = hr_devices(devices, &n, &error);
    if (status == HR_OK)
        status = hr_loop_create(NULL, NULL, &loop, &error);
    if (status != HR_OK) {
        fprintf(stderr, "headrace: %s\n", error.text);
        return EXIT_TRANSFER;
    }
    const char *why = "";
    const char *io = hr_loop_io(loop, &why);
    const size_t n_listed = n < MAX_DEVICES ? n : MAX_DEVICES;
    if (json)
        print_json(devices, n_listed, io, why);
    else
        print_text(devices, n_listed, io, why);
    hr_loop_free(loop);
    return finish_stdout();
}

int command_devices(int argc, char **argv)
{
    struct devices_options o = {.limit_s = LIMIT_S};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    return o.tested ? run_selftest(o.tested, o.json, (uint32_t)o.limit_s) : list_devices(o.json);
}
