# SPDX-License-Identifier: Apache-2.0
# What the Python package has of C: the libraries, installed side by side as component python.

set(hr_python_dir ${PROJECT_SOURCE_DIR}/bindings/python)
set(hr_python_headers ${PROJECT_SOURCE_DIR}/engine/include/headrace.h
    ${hr_python_dir}/native/headrace_python.h)
add_subdirectory(${hr_python_dir}/native)
add_custom_target(headrace_python_package)
add_dependencies(headrace_python_package headrace headrace_python)

find_program(HR_PYTHON3 python3)
mark_as_advanced(HR_PYTHON3)
if(HR_PYTHON3) # by hand, after a change of a header; a test compares
    add_custom_target(headrace_python_declarations
        COMMAND ${HR_PYTHON3} ${hr_python_dir}/generate.py
                ${hr_python_dir}/headrace/_declarations.py ${hr_python_headers} VERBATIM)
endif()

if(NOT SKBUILD) # which makes the wheel
    return()
endif()

# In a wheel there are no links: each library has the one name that it is opened by, and finds the
# others beside it, wherever the package lies.
set_target_properties(headrace PROPERTIES VERSION 0 INSTALL_RPATH "$ORIGIN")
install(TARGETS headrace headrace_python
        LIBRARY DESTINATION . COMPONENT python NAMELINK_SKIP)

# liburing and libzstd as they are on this machine: archives need not be position independent.
foreach(target PkgConfig::URING PkgConfig::ZSTD)
    if(NOT TARGET ${target})
        continue()
    endif()
    get_target_property(paths ${target} INTERFACE_LINK_LIBRARIES)
    foreach(path ${paths})
        get_filename_component(file ${path} REALPATH)
        get_filename_component(name ${file} NAME)
        if(name MATCHES "^lib(uring|zstd)[.]so[.][0-9]+")
            install(FILES ${file} RENAME ${CMAKE_MATCH_0} DESTINATION . COMPONENT python)
        endif()
    endforeach()
endforeach()
