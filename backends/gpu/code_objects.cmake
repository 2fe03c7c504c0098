# SPDX-License-Identifier: Apache-2.0
# The built-in kernels as code objects: machine code for each of AMD's architectures that are
# listed here, in one bundle. Other architectures, and builds without a clang that knows all of
# these, have the kernels compiled when they are first used. Included by builtin.cmake.

set(hr_amd_archs gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1151 gfx1200 gfx1201)

set(HR_AMD_CLANG AUTO CACHE STRING
    "clang 19 or newer, with lld, for the kernels of AMD's GPUs: a path, AUTO or OFF (compiled when first used)")
set(HR_AMD_BUNDLE "" CACHE FILEPATH
    "builtin_kernels.hipfb of another build of these sources, instead of compiling it")

# Version 4 is what ROCm 5 and later load. No headers, no device libraries. Neither paths nor
# times get into the objects: the same sources give the same bytes.
set(hr_amd_flags -x hip --cuda-device-only -nogpuinc -nogpulib -std=c++17 -O3 -ffp-contract=off
    -fuse-cuid=none -mcode-object-version=4 -Wall -Wextra -Wno-unused-function)

# Whether it compiles, links and bundles for all of them. The bundler is the compiler's own.
function(hr_try_amd_clang clang out)
    set(source ${PROJECT_BINARY_DIR}/CMakeFiles/hr_try_amd.cu)
    file(WRITE ${source} "extern \"C\" __attribute__((global)) void f() {}\n")
    list(JOIN hr_amd_archs "," archs)
    execute_process(COMMAND ${clang} ${hr_amd_flags} --offload-arch=${archs} --gpu-bundle-output
                            ${source} -o ${source}.hipfb
                    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
    set(${out} "${said}" PARENT_SCOPE)
    if(NOT failed)
        set(${out} "" PARENT_SCOPE)
    elseif(NOT said)
        set(${out} "it does not run (${failed})" PARENT_SCOPE)
    endif()
endfunction()

# The result is kept, since trying takes a second.
function(hr_find_amd_clang)
    foreach(name clang-19 clang clang-20 clang-21 clang-22)
        find_program(path ${name} NO_CACHE)
        if(path)
            hr_try_amd_clang(${path} said)
            if(NOT said)
                set(HR_AMD_CLANG_FOUND ${path} CACHE FILEPATH "What HR_AMD_CLANG=AUTO found")
                mark_as_advanced(HR_AMD_CLANG_FOUND)
                return()
            endif()
        endif()
        unset(path)
    endforeach()
endfunction()

set(hr_amd_clang)
if(HR_AMD_BUNDLE)
    if(NOT EXISTS ${HR_AMD_BUNDLE})
        message(FATAL_ERROR "HR_AMD_BUNDLE, ${HR_AMD_BUNDLE}, is not there")
    endif()
    set(hr_amd_bundle ${HR_AMD_BUNDLE})
elseif(HR_AMD_CLANG STREQUAL "AUTO")
    if(NOT HR_AMD_CLANG_FOUND)
        hr_find_amd_clang()
    endif()
    set(hr_amd_clang ${HR_AMD_CLANG_FOUND})
elseif(HR_AMD_CLANG)
    hr_try_amd_clang(${HR_AMD_CLANG} said)
    if(said)
        message(FATAL_ERROR "HR_AMD_CLANG, ${HR_AMD_CLANG}, does not compile for all of "
                            "${hr_amd_archs}:\n${said}")
    endif()
    set(hr_amd_clang ${HR_AMD_CLANG})
endif()
message(STATUS "clang for kernels of AMD's GPUs: ${hr_amd_clang}${HR_AMD_BUNDLE}")

set(hr_amd_made ${hr_gpu_made}/builtin_kernels.hipfb)
set(hr_amd_command ${hr_gpu_made}/code_object_command) # a word a line, for tests
if(hr_amd_clang) # each architecture a command, so that they run side by side
    set(hr_amd_bundle ${hr_amd_made})
    list(JOIN hr_amd_flags "\n" lines)
    file(CONFIGURE OUTPUT ${hr_amd_command} CONTENT "${hr_amd_clang}\n${lines}\n")
    set(hr_amd_targets host-x86_64-unknown-linux-gnu)
    set(hr_amd_inputs --input=/dev/null)
    set(hr_amd_objects)
    foreach(arch ${hr_amd_archs})
        set(object ${hr_gpu_made}/${arch}.co)
        add_custom_command(OUTPUT ${object}
            COMMAND ${hr_amd_clang} ${hr_amd_flags} $<$<BOOL:${HR_WERROR}>:-Werror>
                    --offload-arch=${arch} --no-gpu-bundle-output ${hr_gpu_source} -o ${object}
            DEPENDS ${hr_gpu_source} COMMENT "Compiling the kernels of GPUs for ${arch}"
            COMMAND_EXPAND_LISTS VERBATIM)
        list(APPEND hr_amd_objects ${object})
        list(APPEND hr_amd_inputs --input=${object})
        string(APPEND hr_amd_targets ",hipv4-amdgcn-amd-amdhsa--${arch}")
    endforeach()
    execute_process(COMMAND ${hr_amd_clang} --print-prog-name=clang-offload-bundler
                    OUTPUT_VARIABLE hr_amd_bundler OUTPUT_STRIP_TRAILING_WHITESPACE)
    add_custom_command(OUTPUT ${hr_amd_bundle}
        COMMAND ${hr_amd_bundler} --type=o --bundle-align=4096 --targets=${hr_amd_targets}
                ${hr_amd_inputs} --output=${hr_amd_bundle}
        DEPENDS ${hr_amd_objects} VERBATIM)
elseif(NOT HR_AMD_BUNDLE)
    file(REMOVE ${hr_amd_made} ${hr_amd_command}) # an earlier configuration's
    set(hr_amd_bundle ${hr_gpu_made}/no_code_objects)
    file(CONFIGURE OUTPUT ${hr_amd_bundle} CONTENT "")
endif()

list(APPEND hr_sources ${hr_amd_bundle})
set_source_files_properties(${hr_amd_bundle} PROPERTIES HEADER_FILE_ONLY ON)
set_source_files_properties(backends/hip/hip_bundle_data.c PROPERTIES
    OBJECT_DEPENDS ${hr_amd_bundle} COMPILE_DEFINITIONS HR_BUNDLE="${hr_amd_bundle}")
