# SPDX-License-Identifier: GPL-3.0-or-later
# MEMLEAX_STATIC: one file that needs no other: all libraries linked in, those of the toolchain, too.
# Position-independent nevertheless, as it reads what may be out to hurt it.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
string(APPEND CMAKE_EXE_LINKER_FLAGS " -static-pie")

# What these archives need themselves, and .pc files name for static links only.
foreach(name bz2 lzma tinfo)
  find_library(MEMLEAX_STATIC_${name} ${name})
  if(NOT MEMLEAX_STATIC_${name})
    message(FATAL_ERROR "MEMLEAX_STATIC: there is no lib${name}.a (scripts/setup.sh static)")
  endif()
endforeach()

# Called behind find_package() and its like.
function(memleax_link_statically)
  # By name, as CMake would put the target ZLIB::ZLIB before libdw, where others want it.
  set_property(TARGET PkgConfig::LIBDW APPEND PROPERTY INTERFACE_LINK_LIBRARIES
    ${MEMLEAX_STATIC_bz2} ${MEMLEAX_STATIC_lzma} -l:libz.a)
  set_property(TARGET PkgConfig::READLINE APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${MEMLEAX_STATIC_tinfo})
  # Debian's package of Abseil has both, and names the shared ones.
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target ${imported})
    get_target_property(library ${target} IMPORTED_LOCATION_NONE)
    if(target MATCHES "^absl::" AND library MATCHES "^(.*)[.]so[.0-9]*$")
      set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION_NONE ${CMAKE_MATCH_1}.a)
    endif()
  endforeach()
  # A static program that loads a shared library would load a second C library, of whatever version.
  # libdw would do it when it begins, too (for debuginfod).
  target_compile_definitions(memleax_options INTERFACE MEMLEAX_STATIC)
  target_link_options(memleax_options INTERFACE -Wl,--wrap=dlopen)
endfunction()
