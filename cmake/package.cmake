# SPDX-License-Identifier: GPL-3.0-or-later
# `cpack` in the build folder makes memleax_VERSION_ARCHITECTURE.deb.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME memleax)
set(CPACK_PACKAGE_CONTACT "memleax maintainers <maintainers@users.noreply.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "find memory leaks of a running process")
set(CPACK_PACKAGE_DESCRIPTION
"memleax attaches to a process that was prepared in no way, watches
what it allocates and frees, and reports the call stacks whose memory is
not given back: function, file, line, counts, sizes and ages. Then it
leaves, and the process runs on as before. No restart, no preloading, no
special build.

Reports come as text, JSON, HTML, flame graphs, pprof and callgrind
profiles.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Loaded at run time: names from a debuginfod server, if DEBUGINFOD_URLS is set.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libdebuginfod1")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_files.cmake)
set(CPACK_MEMLEAX_SOURCE ${CMAKE_SOURCE_DIR})
if(CMAKE_CROSSCOMPILING)
  if(MEMLEAX_ARCH STREQUAL aarch64)
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  else()
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
  endif()
  # The libraries are the sysroot's, and so are the packages that they come from.
  set(CPACK_MEMLEAX_SYSROOT ${CMAKE_SYSROOT})
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_sysroot.cmake)
endif()
include(CPack)
