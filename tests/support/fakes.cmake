# SPDX-License-Identifier: Apache-2.0
# Drivers and compilers for machines without a GPU, under the names of the real ones, and the tests
# that run over them. A program that is linked with CUDA's has the backend find them; HIP's, of
# several versions over the same core, are named by the environment.

set(hr_fake_dir ${PROJECT_SOURCE_DIR}/tests/support/fake_cuda)
set(hr_fake_hip_dir ${PROJECT_SOURCE_DIR}/tests/support/fake_hip)
set(hr_fake_hip_sources ${hr_fake_hip_dir}/fake_hip.c ${hr_fake_hip_dir}/fake_image.c)
set(hr_fake_hips)

# CUDA -------------------------------------------------------------------------------------------

add_library(fake_cuda SHARED ${hr_fake_dir}/fake_context.c ${hr_fake_dir}/fake_memory.c
            ${hr_fake_dir}/fake_stream.c ${hr_fake_dir}/fake_module.c)
add_library(fake_nvrtc SHARED ${hr_fake_dir}/fake_nvrtc.c)
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
set_target_properties(fake_nvrtc PROPERTIES OUTPUT_NAME nvrtc SOVERSION 13)
foreach(target fake_cuda fake_nvrtc)
    hr_setup(${target})
    set_target_properties(${target} PROPERTIES
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fake_cuda)
    target_compile_options(${target} PRIVATE ${hr_warnings})
    target_link_libraries(${target} PRIVATE Threads::Threads)
endforeach()

# One that copies wrongly, for the self-test.
add_library(fake_cuda_wrong SHARED ${hr_fake_dir}/fake_wrong.c)
hr_setup(fake_cuda_wrong)
set_target_properties(fake_cuda_wrong PROPERTIES OUTPUT_NAME cuda_wrong
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fake_cuda)
target_compile_options(fake_cuda_wrong PRIVATE ${hr_warnings})
target_link_options(fake_cuda_wrong PRIVATE LINKER:--no-as-needed)
target_link_libraries(fake_cuda_wrong PRIVATE fake_cuda ${CMAKE_DL_LIBS})

# HIP: its compiler is in its library, and from 7 on beside it; 4 is one that lacks a call ---------

function(hr_fake_hip target rocm output)
    add_library(${target} SHARED ${ARGN})
    hr_setup(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} SOVERSION ${rocm}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fake_hip_${rocm})
    target_compile_definitions(${target} PRIVATE FAKE_HIP_ROCM=${rocm})
    target_include_directories(${target} PRIVATE engine/include)
    target_compile_options(${target} PRIVATE ${hr_warnings} ${hr_internal_includes}
                           "SHELL:-iquote ${hr_fake_dir}"
                          "SHELL:-iquote ${PROJECT_SOURCE_DIR}/tests/support")
    target_link_libraries(${target} PRIVATE fake_cuda fake_nvrtc Threads::Threads)
    set(hr_fake_hips ${hr_fake_hips} ${target} PARENT_SCOPE)
endfunction()

foreach(rocm 4 5 6)
    hr_fake_hip(fake_hip_${rocm} ${rocm} amdhip64 ${hr_fake_hip_sources}
                ${hr_fake_hip_dir}/fake_hiprtc.c)
endforeach()
hr_fake_hip(fake_hip_7 7 amdhip64 ${hr_fake_hip_sources})
hr_fake_hip(fake_hiprtc_7 7 hiprtc ${hr_fake_hip_dir}/fake_hiprtc.c)

# Tests over them --------------------------------------------------------------------------------

function(hr_use_fake_cuda name)
    target_sources(${name} PRIVATE ${hr_fake_dir}/fake_builtin.c)
    target_compile_options(${name} PRIVATE "SHELL:-iquote ${hr_fake_dir}")
    target_link_options(${name} PRIVATE LINKER:--no-as-needed)
    target_link_libraries(${name} PRIVATE fake_cuda fake_nvrtc)
endfunction()

# The same program over each version of HIP.
function(hr_register_hip suite name program)
    foreach(rocm 5 6 7)
        hr_register(${suite} ${name}_hip_${rocm} ${CMAKE_COMMAND} -E env
                    HR_LIBAMDHIP64=$<TARGET_FILE:fake_hip_${rocm}>
                    LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/fake_hip_${rocm}
                    $<TARGET_FILE:${program}> hip ${ARGN})
    endforeach()
    add_dependencies(${suite}_tests ${hr_fake_hips})
endfunction()

foreach(name test_device_store test_gpu_device test_gpu_memory test_gpu_lend test_gpu_kernels
        test_gpu_faults test_hip test_hip_library test_hip_images stress_gpu_device
        stress_hold)
    if(TARGET ${name})
        hr_use_fake_cuda(${name})
    endif()
endforeach()
foreach(name test_hip test_hip_library test_hip_images)
    if(TARGET ${name})
        target_compile_definitions(${name} PRIVATE
                                   HR_FAKE_HIP="${PROJECT_BINARY_DIR}/tests/fake_hip_")
        add_dependencies(${name} ${hr_fake_hips})
    endif()
endforeach()
if(TARGET test_hip) # so that it finds one by name, also where a sanitizer stands in for dlopen()
    set_property(TARGET test_hip APPEND PROPERTY
                 BUILD_RPATH ${PROJECT_BINARY_DIR}/tests/fake_hip_7)
    target_link_options(test_hip PRIVATE LINKER:--disable-new-dtags)
endif()

file(GLOB tests CONFIGURE_DEPENDS tests/faults/fault_gpu_*.c)
foreach(source ${tests})
    get_filename_component(name ${source} NAME_WE)
    target_sources(${name} PRIVATE ${hr_fake_dir}/gpu_runs.c)
    hr_use_fake_cuda(${name})
    hr_register_hip(faults ${name} ${name})
endforeach()

hr_test_program(conformance conformance_fake_cuda headrace_internal
                tests/conformance/conformance.c)
target_compile_options(conformance_fake_cuda PRIVATE ${hr_warnings})
hr_use_fake_cuda(conformance_fake_cuda)
hr_register(conformance conformance_fake_cuda conformance_fake_cuda cuda)
hr_register_hip(conformance conformance_fake conformance_fake_cuda)

hr_test_program(cli headrace_fake_gpu headrace_internal ${hr_cli_sources}
                ${hr_fake_dir}/fake_selftest.c)
target_compile_options(headrace_fake_gpu PRIVATE ${hr_warnings})
hr_use_fake_cuda(headrace_fake_gpu)
add_dependencies(cli_tests fake_cuda_wrong ${hr_fake_hips})
