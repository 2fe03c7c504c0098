# SPDX-License-Identifier: Apache-2.0
# HIP's library of three versions over NVIDIA's driver: the HIP backend on a real GPU, by
# tests/gpu/hip_over_cuda.sh; here over the fake driver. Nothing of CUDA is needed to build it: our
# own prototypes are compared with the headers of both vendors where these are, see tests/unit.

set(hr_over_dir ${PROJECT_SOURCE_DIR}/tests/support/hip_over_cuda)
set(hr_over_sources ${hr_over_dir}/over_core.c ${hr_over_dir}/over_devices.c
    ${hr_over_dir}/over_memory.c ${hr_over_dir}/over_work.c backends/cuda/cuda_library.c
    backends/gpu/gpu_library.c)

# As in ROCm, the compiler is in the library, and in 7 beside it.
add_library(hip_over_cuda_5 SHARED ${hr_over_sources} ${hr_over_dir}/over_rtc.c)
add_library(hip_over_cuda_6 SHARED ${hr_over_sources} ${hr_over_dir}/over_rtc.c)
add_library(hip_over_cuda_7 SHARED ${hr_over_sources})
add_library(hiprtc_over_cuda_7 SHARED ${hr_over_dir}/over_rtc.c backends/gpu/gpu_library.c)
set(hr_over_targets hip_over_cuda_5 hip_over_cuda_6 hip_over_cuda_7 hiprtc_over_cuda_7)
foreach(target ${hr_over_targets})
    string(REGEX MATCH "[0-9]" rocm ${target})
    hr_setup(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME amdhip64 SOVERSION ${rocm}
        C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/hip_over_cuda_${rocm})
    target_compile_definitions(${target} PRIVATE HIP_OVER_CUDA_ROCM=${rocm})
    target_include_directories(${target} PRIVATE engine/include)
    target_compile_options(${target} PRIVATE ${hr_warnings} ${hr_internal_includes}
                           "SHELL:-iquote ${PROJECT_SOURCE_DIR}/tests/support")
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
set_target_properties(hiprtc_over_cuda_7 PROPERTIES OUTPUT_NAME hiprtc)

hr_test_program(gpu hip_abi headrace_internal tests/gpu/hip_abi.c)
target_compile_options(hip_abi PRIVATE ${hr_warnings})

# Some programs are linked with the fake driver and compiler, so that the libraries find these;
# others are told by a variable.
foreach(rocm 5 6 7)
    set(hr_over_hip ${CMAKE_COMMAND} -E env HR_REQUIRE=hip
        HR_LIBAMDHIP64=$<TARGET_FILE:hip_over_cuda_${rocm}>
        LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/hip_over_cuda_${rocm})
    hr_register(conformance conformance_hip_over_cuda_${rocm} ${hr_over_hip}
                $<TARGET_FILE:conformance_fake_cuda> hip 13)
    hr_register(gpu pipelines_hip_over_cuda_${rocm} ${hr_over_hip}
                $<TARGET_FILE:pipelines_fake_gpu> hip --quick ends kernels loans errors)
    hr_register(gpu lend_hip_over_cuda_${rocm} ${hr_over_hip} HR_LIBCUDA=$<TARGET_FILE:fake_cuda>
                ${PROJECT_BINARY_DIR}/tests/gpu/run_lend hip)
    hr_register(gpu abi_hip_over_cuda_${rocm} ${hr_over_hip} HR_LIBCUDA=$<TARGET_FILE:fake_cuda>
                $<TARGET_FILE:hip_abi> ${rocm})
    hr_register(gpu abi_fake_hip_${rocm} ${CMAKE_COMMAND} -E env HR_REQUIRE=hip
                HR_LIBAMDHIP64=$<TARGET_FILE:fake_hip_${rocm}> $<TARGET_FILE:hip_abi> ${rocm})
    hr_register(gpu compile_hip_over_cuda_${rocm} ${hr_over_hip}
                ${PROJECT_BINARY_DIR}/tests/gpu/compile_hiprtc sm_90)
endforeach()
add_dependencies(conformance_tests ${hr_over_targets})
add_dependencies(gpu_tests ${hr_over_targets})
