// SPDX-License-Identifier: Apache-2.0
/* Runs a command and prints its peak resident memory in bytes on descriptor 3. A program of its
 * own, because what the parent holds at fork(2) counts as the child's; this one holds next to
 * nothing. Usage: peak_rss COMMAND... 3>FILE */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage used;
    int status = 1;
    pid_t child = argc > 1 ? fork() : -1;
    if (child == 0) {
        close(3);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        return 1;
    dprintf(3, "%lld\n", (long long)used.ru_maxrss * 1024); /* KiB on Linux: getrusage(2) */
    return status != 0;
}
