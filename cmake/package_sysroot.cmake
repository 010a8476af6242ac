# SPDX-License-Identifier: GPL-3.0-or-later
# Read by cpack when it packs a cross build: dpkg-shlibdeps is to find the packages of the sysroot's
# libraries. It asks dpkg for the paths as they are on this machine; so it gets a database of those packages
# that have libraries in which the paths begin with the sysroot.
set(installed ${CPACK_MEMLEAX_SYSROOT}/var/lib/dpkg)
if(NOT EXISTS ${installed}/status)
  message(FATAL_ERROR "${installed}/status does not exist: the package's dependencies are not known")
endif()
set(database ${CPACK_PACKAGE_DIRECTORY}/_CPack_Packages/dpkg)
file(REMOVE_RECURSE ${database})
file(MAKE_DIRECTORY ${database}/info ${database}/updates)
file(COPY ${installed}/status DESTINATION ${database})
file(COPY ${installed}/info/format DESTINATION ${database}/info)
file(WRITE ${database}/arch ${CPACK_DEBIAN_PACKAGE_ARCHITECTURE}\n)
file(GLOB libraries ${installed}/info/*.shlibs)
foreach(shlibs ${libraries})
  string(REGEX REPLACE "[.]shlibs$" "" package ${shlibs})
  file(GLOB control ${package}.shlibs ${package}.symbols)
  file(COPY ${control} DESTINATION ${database}/info)
  file(READ ${package}.list paths)
  # Where /lib is a link to usr/lib, lists may have either, and a library is found by its real path.
  string(REGEX REPLACE "(^|\n)(/usr)?/" "\\1${CPACK_MEMLEAX_SYSROOT}/usr/" paths "${paths}")
  get_filename_component(name ${package} NAME)
  file(WRITE ${database}/info/${name}.list "${paths}")
endforeach()
set(ENV{DPKG_ADMINDIR} ${database})
