// SPDX-License-Identifier: Apache-2.0
/* headrace devices: what this machine offers, and why something is absent. */
#include <argp.h>
#include <string.h>

#include "cli.h"

enum { KEY_JSON = 256, MAX_DEVICES = 64 };

static const struct argp_option option_table[] = {
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {"json", KEY_JSON, NULL, 0, "As JSON, with exact numbers", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    bool *json = state->input;
    if (key == 'h')
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* which exits */
    else if (key == KEY_JSON)
        *json = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is too much: no argument is taken", arg);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .doc = "Lists the devices that kernels can run on, each absent one with its reason, and what "
           "reads and writes on this machine.\v"
           "Exit status: 0 the list was printed, whatever it says; 1 it could not be made; 2 the "
           "command line is wrong.",
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
    puts("}");
}

int command_devices(int argc, char **argv)
{
    static struct hr_device devices[MAX_DEVICES];
    bool json = false;
    size_t n = MAX_DEVICES;
    hr_loop *loop = NULL;
    hr_error error = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &json);
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
