// SPDX-License-Identifier: Apache-2.0
/* The lines that a plain test program prints, and what it asks the process about. */
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transfers.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

static unsigned n_failed;
static unsigned n_checks;
static char doing[200];

void check_that(bool holds, const char *name, const char *format, ...)
{
    n_checks++;
    n_failed += !holds;
    printf(holds ? "ok %s" : "not ok %s: ", name);
    if (!holds) {
        va_list arguments;
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
    }
    putchar('\n');
    fflush(stdout);
}

int end_checks(void)
{
    return n_failed > 0 || n_checks == 0;
}

static void give_up(int signal_number)
{
    (void)signal_number;
    static const char words[] = "not ok it hangs: ";
    (void)!write(STDOUT_FILENO, words, sizeof words - 1);
    (void)!write(STDOUT_FILENO, doing, strlen(doing));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(1);
}

void limit_time(unsigned seconds, const char *now)
{
    alarm(0);
    snprintf(doing, sizeof doing, "%s", now);
    signal(SIGALRM, give_up);
    alarm(seconds);
}

unsigned count_open_files(void)
{
    unsigned n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        n++;
    if (directory)
        closedir(directory);
    return n;
}

bool has_leaked(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return __lsan_do_recoverable_leak_check() != 0;
#else
    return false;
#endif
}
