# SPDX-License-Identifier: GPL-3.0-or-later
# Run by cpack on what has been installed: what a Debian package has beside that. It compresses the
# man page and the changelog, without a time in them, so that a package can be made again.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX})
function(compress file)
  execute_process(COMMAND gzip -9n --force ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
if(EXISTS ${root}/share/man/man1/memleax.1)
  compress(${root}/share/man/man1/memleax.1)
endif()
set(folder ${root}/share/doc/memleax)
file(MAKE_DIRECTORY ${folder})
file(COPY ${CPACK_MEMLEAX_SOURCE}/share/debian/copyright DESTINATION ${folder})
file(COPY ${CPACK_MEMLEAX_SOURCE}/share/debian/changelog DESTINATION ${folder})
compress(${folder}/changelog)
