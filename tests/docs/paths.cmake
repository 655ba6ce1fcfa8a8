# Checks that every path that the README and the pages name is there:
#
#   cmake -P tests/docs/paths.cmake
#
# Paths are the targets of links, and texts in backticks that begin with a folder of the project. It
# does not check patterns such as `ops/definitions/<family>.cc`.
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)

function(find_missing root result)
  set(missing "")
  file(GLOB pages RELATIVE ${root} ${root}/README.md ${root}/docs/*.md)
  foreach(page IN LISTS pages)
    file(READ ${root}/${page} text)
    string(REPLACE ";" "," text "${text}")
    string(REGEX REPLACE "\\[([^]]*)\\]" "@\\1@" text "${text}")  # brackets would glue list items together
    string(REGEX MATCHALL "@\\([^)\n]+\\)" links "${text}")
    list(TRANSFORM links REPLACE "^@.(.*).$" "\\1")
    cmake_path(GET page PARENT_PATH folder)
    foreach(link IN LISTS links)
      string(REGEX REPLACE "#.*" "" file "${link}")
      if(NOT link MATCHES "^(https?:|#)" AND NOT EXISTS ${root}/${folder}/${file})
        list(APPEND missing "${page}: links to ${link}")
      endif()
    endforeach()
    string(REGEX MATCHALL "`[^`\n]+`" spans "${text}")
    list(TRANSFORM spans REPLACE "`" "")
    foreach(span IN LISTS spans)
      if(span MATCHES "^(devices|transport|ops|scheduler|daemon|configs|deploy|tests|docs)/[A-Za-z0-9_./-]*$" AND
         NOT EXISTS ${root}/${span})
        list(APPEND missing "${page}: names ${span}")
      endif()
    endforeach()
  endforeach()
  set(${result} "${missing}" PARENT_SCOPE)
endfunction()

find_missing(${root} missing)
if(missing)
  list(JOIN missing "\n  " text)
  message(FATAL_ERROR "paths that are not there:\n  ${text}")
endif()
