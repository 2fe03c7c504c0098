// SPDX-License-Identifier: Apache-2.0
/* The command headrace: chooses the subcommand. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cli.h"

static const char usage[] =
    "Usage: headrace run SOURCE... SINK [OPTION...]\n"
    "       headrace devices [--selftest[=DEVICE]] [--json]\n"
    "       headrace bench [--list|CASE...] [OPTION...]\n"
    "       headrace bench --tune [FILE] [--save] [OPTION...]\n"
    "       headrace --version\n"
    "       headrace --help\n"
    "\n"
    "Streams files, pipes and sockets through a pipeline in which reading, decoding,\n"
    "kernels, encoding and writing all work at once.\n"
    "\n"
    "  run      moves a stream from its sources to its sink\n"
    "  devices  lists what kernels can run on, and why something is absent; or checks it\n"
    "  bench    measures what this machine can do, and the pipeline against it; or looks\n"
    "           for settings that suit it\n"
    "\n"
    "'headrace COMMAND --help' lists the options of a command.\n";

static const struct command {
    const char *word;
    char name[20]; /* what argp calls the program in its messages */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "headrace run", command_run},
    {"devices", "headrace devices", command_devices},
    {"bench", "headrace bench", command_bench},
};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "headrace %s\n", hr_version());
}

int finish_stdout(void)
{
    const bool wrong = ferror(stdout);
    if (fflush(stdout) == 0 && !wrong)
        return EXIT_DONE;
    fprintf(stderr, "headrace: standard output: %s\n", strerror(errno));
    return EXIT_TRANSFER;
}

/* The number of a standard stream that is closed would go to what is opened next, which would then
 * be read or written in its place. It is taken by one that refuses what the stream is for. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    hold_standard_streams();
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_USAGE;
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(word, commands[i].word) != 0)
            continue;
        char name[sizeof commands[i].name];
        memcpy(name, commands[i].name, sizeof name);
        argv[1] = name;
        return commands[i].run(argc - 1, argv + 1);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        print_version(stdout, NULL);
        return finish_stdout();
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-?") == 0 ||
        strcmp(word, "-h") == 0) {
        fputs(usage, stdout);
        return finish_stdout();
    }
    if (*word)
        fprintf(stderr,
                "headrace: there is no command '%s'; there are run, devices and bench\n"
                "Try 'headrace --help'\n",
                word);
    else
        fputs(usage, stderr);
    return EXIT_USAGE;
}
