# Installs HEADERS, named from SOURCE_DIR, and the headers of ours that they include, under
# DESTINATION. It runs as a part of `cmake --install`, so that an include added later is followed.
cmake_minimum_required(VERSION 3.25)
set(todo ${HEADERS})
set(done "")
while(todo)
  list(POP_FRONT todo header)
  if(header IN_LIST done)
    continue()
  endif()
  list(APPEND done ${header})
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL ${SOURCE_DIR}/${header} TYPE FILE
    DESTINATION ${CMAKE_INSTALL_PREFIX}/${DESTINATION}/${folder})
  file(STRINGS ${SOURCE_DIR}/${header} includes REGEX "^#include \"")
  list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
  list(APPEND todo ${includes})
endwhile()
