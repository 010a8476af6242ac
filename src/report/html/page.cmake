# SPDX-License-Identifier: GPL-3.0-or-later
# The page of the html report, inlined into the program. Its libraries come from npm when the build is
# configured, once for each package-lock.json. Without npm or network the build goes on without html.

set(MEMLEAX_HTML AUTO CACHE STRING "The html report: AUTO (if npm gets its libraries), ON or OFF")
set_property(CACHE MEMLEAX_HTML PROPERTY STRINGS AUTO ON OFF)

set(html_sources ${CMAKE_SOURCE_DIR}/src/report/html)
set(html_build ${CMAKE_BINARY_DIR}/html)

# Sets `problem`, to "" when the libraries are in ${html_build}/node_modules.
function(memleax_get_html_libraries)
  find_program(MEMLEAX_NODE NAMES node nodejs)
  find_program(MEMLEAX_NPM npm)
  if(NOT MEMLEAX_NODE OR NOT MEMLEAX_NPM)
    set(problem "npm is not installed" PARENT_SCOPE)
    return()
  endif()
  file(SHA256 ${html_sources}/package-lock.json lock)
  set(stamp ${html_build}/node_modules/.memleax-${lock})
  if(EXISTS ${stamp})
    set(problem "" PARENT_SCOPE)
    return()
  endif()
  # What failed is not tried again at each configuring; ON insists.
  if(MEMLEAX_HTML STREQUAL AUTO AND MEMLEAX_HTML_FAILED STREQUAL "${lock}")
    set(problem "npm failed before (MEMLEAX_HTML=ON tries again)" PARENT_SCOPE)
    return()
  endif()
  message(STATUS "Getting the libraries of the html report")
  file(MAKE_DIRECTORY ${html_build})
  file(COPY ${html_sources}/package.json ${html_sources}/package-lock.json DESTINATION ${html_build})
  execute_process(
    COMMAND ${MEMLEAX_NPM} ci --ignore-scripts --no-audit --no-fund --no-update-notifier --prefer-offline
            --fetch-retries=0 --fetch-timeout=15000 --loglevel=error
    WORKING_DIRECTORY ${html_build}
    TIMEOUT 60
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    set(MEMLEAX_HTML_FAILED ${lock} CACHE INTERNAL "package-lock.json that npm failed for")
    # Pages of a stack trace may follow; or it said nothing, as its time was up.
    string(REGEX MATCH "[^\n]+" said "${said}")
    set(problem "npm ci failed (${result}): ${said}" PARENT_SCOPE)
    return()
  endif()
  unset(MEMLEAX_HTML_FAILED CACHE)
  file(TOUCH ${stamp})
  set(problem "" PARENT_SCOPE)
endfunction()

if(MEMLEAX_HTML STREQUAL OFF)
  set(problem "MEMLEAX_HTML is OFF")
else()
  memleax_get_html_libraries()
endif()

if(problem STREQUAL "")
  set(html_page ${html_build}/html_page.cpp)
  file(GLOB html_parts CONFIGURE_DEPENDS ${html_sources}/*)
  add_custom_command(OUTPUT ${html_page}
    COMMAND ${MEMLEAX_NODE} ${html_sources}/assemble.mjs ${html_sources} ${html_build}/node_modules ${html_page}
    DEPENDS ${html_parts}
    VERBATIM)
elseif(MEMLEAX_HTML STREQUAL ON)
  message(FATAL_ERROR "MEMLEAX_HTML=ON, but ${problem}")
else()
  message(STATUS "Without the html report: ${problem}")
  set(html_page ${html_build}/no_html_page.cpp)
  file(CONFIGURE OUTPUT ${html_page} CONTENT [[
#include "html_page.hpp"
const memleax::HtmlPage memleax::kHtmlPage{};
]])
endif()

set(with_html $<STREQUAL:${html_page},${html_build}/html_page.cpp>)
if(MEMLEAX_HTML STREQUAL OFF)
  set(why_without_html "it was built with MEMLEAX_HTML=OFF")
else()
  set(why_without_html "npm was not available when it was built")
endif()
set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/report/report_formats.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  MEMLEAX_WITH_HTML=${with_html} MEMLEAX_WHY_WITHOUT_HTML="${why_without_html}")
target_sources(memleax_report PRIVATE ${html_page})
# clang-tidy looks at unity files without building what they include.
set_source_files_properties(${html_page} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_include_directories(memleax_report PRIVATE ${CMAKE_SOURCE_DIR}/src/report)
