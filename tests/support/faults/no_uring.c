// SPDX-License-Identifier: Apache-2.0
/* Usage: no_uring ERRNO PROGRAM [ARGUMENT...]. Runs a program to which io_uring_setup(2) is refused
 * with that number: 1 (EPERM, as container runtimes do), 38 (ENOSYS, an old kernel), 12 (ENOMEM,
 * the limit on locked memory). */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: no_uring ERRNO PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    const unsigned error = (unsigned)strtoul(argv[1], NULL, 10) & SECCOMP_RET_DATA;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        perror("no_uring: the system takes no filter");
        return 77;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
