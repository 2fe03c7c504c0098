// SPDX-License-Identifier: Apache-2.0
/* The bare loop of recv(2) from a port of the loopback to the end of the stream: it drops what
 * comes, or computes its CRC-32 by zlib and prints it.
 * Usage: receive PORT [crc] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <zlib.h>

static unsigned char block[1 << 20];

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    unsigned long crc = crc32(0, NULL, 0);
    ssize_t n;

    at.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        perror("receive");
        return 1;
    }
    while ((n = recv(fd, block, sizeof block, 0)) > 0)
        if (argc > 2)
            crc = crc32(crc, block, (unsigned)n);
    if (argc > 2)
        printf("%08lx\n", crc);
    return n < 0;
}
