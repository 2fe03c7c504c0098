# SPDX-License-Identifier: Apache-2.0
# The built-in kernels of GPUs in the library: the files of kernels/ joined to one source, that
# source as text, as PTX where clang is there to make it, and as code objects (code_objects.cmake).

set(hr_gpu_dir ${PROJECT_SOURCE_DIR}/backends/gpu)
set(hr_gpu_made ${PROJECT_BINARY_DIR}/gpu)
set(hr_gpu_source ${hr_gpu_made}/builtin_kernels.cu)
set(hr_gpu_ptx ${hr_gpu_made}/builtin_kernels.ptx)
set(hr_gpu_parts)
foreach(part prelude numbers map reduce exact crc filter entries)
    list(APPEND hr_gpu_parts ${hr_gpu_dir}/kernels/${part}.cu)
endforeach()

set(HR_CLANG AUTO CACHE STRING "clang for the kernels of GPUs: a path, AUTO or OFF (compiled when first used)")
set(hr_clang)
if(HR_CLANG STREQUAL "AUTO")
    find_program(HR_CLANG_FOUND clang)
    mark_as_advanced(HR_CLANG_FOUND)
    if(HR_CLANG_FOUND)
        set(hr_clang ${HR_CLANG_FOUND})
    endif()
elseif(HR_CLANG)
    set(hr_clang ${HR_CLANG})
endif()

# Old enough for every driver since 2017 and every GPU since 2014. Without CUDA's headers and
# libraries; the warning is of a CUDA newer than this clang, which is not used.
set(hr_gpu_ptx_flags -x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -Xclang -target-feature
    -Xclang +ptx60 -nocudainc -nocudalib -ffp-contract=off -O3 -Wall -Wextra -Wno-unused-function
    -Wno-unknown-cuda-version)
if(hr_clang) # not every clang can
    execute_process(COMMAND ${hr_clang} --print-targets OUTPUT_VARIABLE targets ERROR_QUIET)
    if(NOT targets MATCHES "nvptx64")
        set(hr_clang)
    endif()
endif()
message(STATUS "clang for kernels of GPUs: ${hr_clang}")

add_custom_command(OUTPUT ${hr_gpu_source}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${hr_gpu_made}
    COMMAND ${CMAKE_COMMAND} -E cat ${hr_gpu_parts} > ${hr_gpu_source}
    DEPENDS ${hr_gpu_parts} VERBATIM)
if(hr_clang)
    add_custom_command(OUTPUT ${hr_gpu_ptx}
        COMMAND ${hr_clang} ${hr_gpu_ptx_flags} -S ${hr_gpu_source} -o ${hr_gpu_ptx}
        DEPENDS ${hr_gpu_source} COMMENT "Compiling the kernels of GPUs to PTX" VERBATIM)
else()
    file(WRITE ${hr_gpu_ptx} "")
endif()
add_custom_command(OUTPUT ${hr_gpu_made}/gpu_builtin_data.c
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${hr_gpu_source} -DPTX=${hr_gpu_ptx}
            -DOUT=${hr_gpu_made}/gpu_builtin_data.c -P ${hr_gpu_dir}/embed.cmake
    DEPENDS ${hr_gpu_source} ${hr_gpu_ptx} ${hr_gpu_dir}/embed.cmake VERBATIM)

include(backends/gpu/code_objects.cmake)
