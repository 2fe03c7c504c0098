// SPDX-License-Identifier: Apache-2.0
/* The command headrace: chooses the subcommand. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char usage[] = "Usage: headrace run SOURCE... SINK [OPTION...]\n"
                            "       headrace --version\n"
                            "       headrace --help\n"
                            "\n"
                            "Streams files, pipes and descriptors through a pipeline that reads\n"
                            "ahead while it writes. 'headrace run --help' lists the options.\n";

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "run") == 0) {
        static char name[] = "headrace run";
        argv[1] = name;
        return command_run(argc - 1, argv + 1);
    }
    if (strcmp(word, "--version") == 0) {
        printf("headrace %s\n", hr_version());
        return EXIT_DONE;
    }
    if (strcmp(word, "--help") == 0) {
        fputs(usage, stdout);
        return EXIT_DONE;
    }
    if (*word)
        fprintf(stderr, "headrace: there is no command '%s'\n", word);
    fputs(usage, stderr);
    return EXIT_USAGE;
}
