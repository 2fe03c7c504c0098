// SPDX-License-Identifier: Apache-2.0
/* Waits on a port of the loopback that the system picks, prints it, and gives each connection a
 * whole file by sendfile(2), one after the other, until it is ended.
 * Usage: send_file FILE */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int listen_somewhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return -1;
    printf("%d\n", ntohs(at.sin_port));
    return fflush(stdout) == 0 ? fd : -1;
}

int main(int argc, char **argv)
{
    struct stat about;
    int file = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    int listener = file >= 0 && fstat(file, &about) == 0 ? listen_somewhere() : -1;
    if (listener < 0) {
        perror("send_file");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        off_t at = 0;
        while (peer >= 0 && at < about.st_size &&
               sendfile(peer, file, &at, (size_t)(about.st_size - at)) > 0)
            ;
        close(peer);
    }
}
