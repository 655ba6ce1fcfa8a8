# The component `dev`: find_package(Leat) for programs outside of this tree, which open sessions,
# submit jobs and make graphs. docs/install.md has how.
include(CMakePackageConfigHelpers)

set(LEAT_INCLUDE_DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/leat)
set(LEAT_CMAKE_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Leat)
set(LEAT_LIBRARY_DESTINATION ${CMAKE_INSTALL_LIBDIR}/leat)

# The headers that such a program includes. The headers that they include are installed with them.
set(public_headers
  daemon/client/cluster_client.h
  daemon/client/session_client.h
  daemon/spec/load_graph.h
  ops/graph/builder.h
  ops/catalogue.h)
install(CODE "set(SOURCE_DIR \"${CMAKE_SOURCE_DIR}\")
set(DESTINATION \"${LEAT_INCLUDE_DESTINATION}\")
set(HEADERS \"${public_headers}\")" COMPONENT dev)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_headers.cmake COMPONENT dev)

list(TRANSFORM LEAT_LIBRARIES REPLACE "^leat_" "" OUTPUT_VARIABLE LEAT_LIBRARY_NAMES)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/LeatConfig.cmake.in LeatConfig.cmake
  INSTALL_DESTINATION ${LEAT_CMAKE_DESTINATION}
  PATH_VARS LEAT_INCLUDE_DESTINATION LEAT_LIBRARY_DESTINATION)
write_basic_package_version_file(LeatConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/LeatConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/LeatConfigVersion.cmake
  DESTINATION ${LEAT_CMAKE_DESTINATION} COMPONENT dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/examples/
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/leat-dev/examples COMPONENT dev)
