// SPDX-License-Identifier: Apache-2.0
/* Small files of text that appear under their name only when they are whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* mkstemp makes files that only their owner may read; this gives what fopen would. */
static bool usual_mode(int fd)
{
    const mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0;
}

static bool open_beside(struct whole_file *file)
{
    static const char suffix[] = ".XXXXXX";
    const size_t length = strlen(file->path);
    file->temporary = malloc(length + sizeof suffix);
    if (!file->temporary)
        return false;
    memcpy(file->temporary, file->path, length);
    memcpy(file->temporary + length, suffix, sizeof suffix);
    const int fd = mkstemp(file->temporary);
    if (fd >= 0) {
        file->stream = usual_mode(fd) ? fdopen(fd, "w") : NULL;
        if (file->stream)
            return true;
        const int error = errno;
        close(fd);
        unlink(file->temporary);
        errno = error;
    }
    free(file->temporary);
    return false;
}

bool whole_file_open(struct whole_file *file, const char *path)
{
    struct stat status;
    *file = (struct whole_file){0};
    const bool there = stat(path, &status) == 0;
    file->path = there ? realpath(path, NULL) : strdup(path); /* links are followed */
    if (!file->path)
        return false;
    if (!there || S_ISREG(status.st_mode)) {
        if (open_beside(file))
            return true;
    } else {
        file->stream = fopen(path, "w");
        if (file->stream)
            return true;
    }
    free(file->path);
    return false;
}

bool whole_file_close(struct whole_file *file)
{
    const bool wrong = ferror(file->stream);
    int error = fclose(file->stream) != 0 ? errno : wrong ? EIO : 0;
    if (file->temporary) {
        if (!error && rename(file->temporary, file->path) != 0)
            error = errno;
        if (error)
            unlink(file->temporary);
        free(file->temporary);
    }
    free(file->path);
    errno = error;
    return !error;
}

void whole_file_drop(struct whole_file *file)
{
    fclose(file->stream);
    if (file->temporary)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
}
