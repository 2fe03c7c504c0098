# SPDX-License-Identifier: Apache-2.0
# SOURCE and PTX as arrays in the C file OUT.

function(bytes_of file out)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}00")
    string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
    set(${out} "${bytes}" PARENT_SCOPE)
endfunction()

bytes_of(${SOURCE} source)
bytes_of(${PTX} ptx)
file(WRITE ${OUT} "/* Made by embed.cmake. */
#include \"gpu_builtin.h\"

const char hr__gpu_builtin_source[] = {
${source}
};
const unsigned char hr__gpu_builtin_ptx[] = {
${ptx}
};
const size_t hr__gpu_builtin_ptx_size = sizeof hr__gpu_builtin_ptx - 1;
")
